/** `sp.checkpoints`: checkpoints of sessions and of whole agents, by id. */
import { isSavepointError, SavepointError } from "../../errors.js";
import {
  type AgentCheckpoint,
  type AgentCheckpointInfo,
  AgentRestorer,
  type CreateCheckpointOptions,
  type RestorePlan,
} from "../../agents/index.js";
import { checkId, type Checkpoint, type CheckpointKind, type CheckpointRow, MAIN } from "../../records/index.js";
import {
  type CheckpointSet,
  describeNeed,
  enforceRetention,
  removeCheckpoints,
  stillNeeded,
} from "../../retention/index.js";
import type { EffectSummary } from "../../runs/index.js";
import { type CheckpointMatch, findCheckpoint } from "../../sessions/index.js";
import type { Change } from "../../state/index.js";
import { validateFields, createListing, invalidArgument, type Listing, limitEntries } from "../../util/index.js";
import type { Services } from "../services.js";
import { openSession, type Session } from "../session.js";
import { findByName } from "./find-by-name.js";
import { type AnyCheckpointInfo, type CheckpointFilter, walkCheckpoints } from "./list.js";

const CREATE_FIELDS = new Set(["agent", "label", "description", "kind", "metadata", "pinned", "trigger", "ttl"]);
const LIST_FIELDS = new Set(["agent", "session", "of", "kind", "limit"]);

/** The result of restoring a checkpoint. */
export interface RestoreReport extends RestorePlan {
  /** The new head: of kind `recovery`, with the content of the restored checkpoint. */
  readonly checkpoint: AnyCheckpointInfo;
  /** The previous head, as a checkpoint of kind `preOperation`: restoring it undoes the restore. */
  readonly before: AnyCheckpointInfo;
  /** For a session: the tool calls after the checkpoint, which a run that continues may make again. Empty for an agent. */
  readonly effectsAfter: readonly EffectSummary[];
}

/** Options of `sp.checkpoints.list()`. */
export interface CheckpointListOptions extends CheckpointFilter {
  /**
   * At most this many.
   * @default all
   */
  readonly limit?: number;
  /** Only checkpoints of this kind. */
  readonly kind?: CheckpointKind;
}

/**
 * All checkpoints of a store. A checkpoint of a session is a state of that session; a checkpoint of an agent contains the
 * agent's own state and all its conversations.
 *
 * @example
 * const checkpoint = await sp.checkpoints.create({ agent: "support", label: "before the migration" });
 * const { before } = await sp.checkpoints.restore(checkpoint.id);
 * await sp.checkpoints.restore(before.id); // undoes the restore
 */
export class Checkpoints {
  readonly #services: Services;

  /** Use `sp.checkpoints`. */
  constructor(services: Services) {
    this.#services = services;
  }

  /**
   * Saves a checkpoint of a whole agent: its state and all its conversations, at one moment. Its sessions are not included; they
   * have checkpoints of their own. Writes a short record per conversation that has changed; messages are not copied.
   *
   * @throws `AGENT_NOT_FOUND` if the agent was never saved
   */
  async create(options: CreateCheckpointOptions): Promise<AgentCheckpointInfo> {
    this.#services.open();
    validateFields(options, "A checkpoint", CREATE_FIELDS);
    checkId(options.agent, "agent id");
    const created = await this.#services.agentCheckpoints.create(options);
    await this.#enforceRetention(options.agent, created);
    return created;
  }

  /**
   * A checkpoint of a session or an agent with its state, by its id or `session#seq`; `undefined` if there is none.
   *
   * @throws `DAMAGED` if it is damaged
   */
  async load(id: string): Promise<Checkpoint | AgentCheckpoint | undefined> {
    const found = await this.#find(id);
    if (!found) return undefined;
    if (found.agent !== undefined) return this.#services.agentCheckpoints.load(found.agent, found.number, found.row);
    return this.#session(found.reader.sessionId, MAIN).load(found.row.id);
  }

  /**
   * The checkpoints that a name refers to, without their states: none, one, or several if the name is ambiguous. A name is an id,
   * the last eight characters of an id, `session#seq`, `session@branch` (the head of the branch) or `session` (the head of `main`).
   * Looking up the last eight characters of an id reads every checkpoint row of the store, but no states. All other names take a
   * few reads.
   */
  async find(name: string): Promise<AnyCheckpointInfo[]> {
    return findByName(this.#services.open(), checkId(name, "name of a checkpoint"));
  }

  /**
   * The newest intact checkpoint of those that {@link list} returns, with its state; `undefined` if there are none. Damaged ones
   * are skipped and reported by the event `damage`.
   *
   * @throws `DAMAGED` if there are checkpoints and none of them is intact
   */
  async latest(filter: CheckpointListOptions = {}): Promise<Checkpoint | AgentCheckpoint | undefined> {
    let damage: SavepointError | undefined;
    for await (const info of this.list(filter)) {
      try {
        const loaded = await this.load(info.id);
        if (loaded) return loaded;
      } catch (error) {
        if (!isSavepointError(error, "DAMAGED")) throw error;
        damage ??= error;
      }
    }
    if (damage) throw damage;
    return undefined;
  }

  /**
   * Checkpoints of sessions and agents without their states, newest first: by `seq` within a session, by time across sessions.
   * Reads the branch records of all matching sessions first, then checkpoints page by page.
   */
  list(options: CheckpointListOptions = {}): Listing<AnyCheckpointInfo> {
    validateFields(options, "A filter of checkpoints", LIST_FIELDS);
    const { limit = Number.POSITIVE_INFINITY, kind, ...given } = options;
    const { agent = this.#services.scope.agent } = given;
    const filter = { ...given, ...(agent !== undefined && { agent }) };
    if (filter.of !== undefined && filter.of !== "agent" && filter.of !== "session") {
      throw invalidArgument(`\`of\` must be "agent" or "session", got ${JSON.stringify(filter.of)}.`);
    }
    return createListing(() => limitEntries(ofKind(walkCheckpoints(this.#services.open(), filter), kind), limit));
  }

  /**
   * Restores a checkpoint, given its id. The same transaction saves the previous content as a checkpoint of kind `preOperation`,
   * so the restore can be undone.
   *
   * For a checkpoint of an agent: the agent and its conversations return to their content at the checkpoint. Newer conversations
   * are removed, and sessions are not touched. For a checkpoint of a session: the same as `session.rewind()` on the branch that the
   * checkpoint was saved on. Use `session.rewind()` if you have a handle on the session. Use this method for agents, for ids from a
   * list, and to preview the changes.
   *
   * @param options.dryRun change nothing, and return what would change
   * @throws `CHECKPOINT_NOT_FOUND`
   */
  async restore(id: string, options: { readonly dryRun: true }): Promise<RestorePlan>;
  async restore(id: string, options?: { readonly dryRun?: false }): Promise<RestoreReport>;
  async restore(id: string, options: { readonly dryRun?: boolean } = {}): Promise<RestorePlan | RestoreReport> {
    const found = await this.#find(id);
    if (!found) throw notFound(id);
    if (found.agent === undefined) return this.#rewindSession(found, options.dryRun ?? false);
    const { agent, number, row } = found;
    const { agentCheckpoints, numbers } = this.#services;
    const restorer = new AgentRestorer(agentCheckpoints.repository(agent), numbers);
    if (options.dryRun) return restorer.plan(number, row);
    const { plan, checkpoint, before } = await restorer.restore(number, row);
    await this.#enforceRetention(agent, checkpoint);
    return { ...plan, checkpoint, before, effectsAfter: [] };
  }

  /**
   * Deletes one checkpoint. If it is the head of a session's branch, its parent becomes the head; the current state of an agent is
   * never changed.
   *
   * @returns `false` if there is no checkpoint with this id
   * @throws `CONFLICT` if a branch, a step or a run needs it
   */
  async delete(id: string): Promise<boolean> {
    const found = await this.#find(id);
    if (!found) return false;
    const { reader, row } = found;
    const isAgent = found.agent !== undefined;
    const removed = await removeCheckpoints(reader, (checkpoints) => {
      const plan = planDeletion(checkpoints, row, isAgent);
      if (typeof plan === "string") throw stillNeeded(reader.sessionId, row, plan);
      return plan;
    });
    this.#services.cursors.invalidateSession(reader.sessionId);
    return removed.length > 0;
  }

  async #enforceRetention(agent: string, created: AgentCheckpointInfo): Promise<void> {
    const { reader, cursor } = this.#services.agentCheckpoints.repository(agent);
    await enforceRetention(reader, cursor, created);
  }

  async #rewindSession(
    { reader, number, row }: CheckpointMatch,
    dryRun: boolean,
  ): Promise<RestorePlan | RestoreReport> {
    const session = this.#session(reader.sessionId, row.branch);
    const changes = await changesTo(session, row.id);
    const none = { restored: [], recreated: [], removed: [], erased: [] };
    const plan: RestorePlan = { agent: undefined, sessionId: reader.sessionId, changes, ...none };
    if (dryRun) return plan;
    const { effectsAfter, ...checkpoint } = await session.rewind(row.id);
    // A rewind commits the previous head right before the new one.
    const kept = await reader.row(number, checkpoint.seq - 1);
    if (!kept || "unreadable" in kept) throw notFound(`${reader.sessionId}#${checkpoint.seq - 1}`);
    const before = await reader.loadInfo(number, kept, checkpoint.agent);
    return { ...plan, checkpoint, before, effectsAfter };
  }

  #session(id: string, branch: string): Session {
    return openSession(this.#services, id, { branch });
  }

  async #find(id: string): Promise<CheckpointMatch | undefined> {
    const context = this.#services.open();
    if (typeof id !== "string") throw invalidArgument(`The id of a checkpoint must be a string, got ${typeof id}.`);
    return findCheckpoint(context, id);
  }
}

/** The rows to remove and the branches to change if a checkpoint is deleted; or a string, the reason why it cannot be deleted. */
function planDeletion(
  checkpoints: CheckpointSet,
  { seq }: CheckpointRow,
  isAgent: boolean,
): ReturnType<Parameters<typeof removeCheckpoints>[1]> | string {
  const rows = checkpoints.rows.filter((row) => row.seq === seq);
  const [need] = checkpoints.needed.get(seq) ?? [];
  if (need) return describeNeed(need);
  const [head, other] = checkpoints.heads.get(seq) ?? [];
  if (!head) return { rows };
  if (other) return `it is the head of ${JSON.stringify(head.name)} and ${JSON.stringify(other.name)}`;
  if (head.held) return `a run holds its branch ${JSON.stringify(head.name)}`;
  if (head.hidden) return `branch ${JSON.stringify(head.name)} continues from it`;
  // The agent keeps its current state, which is no longer listed as a checkpoint.
  if (isAgent) return { rows, branches: [{ ...head, hidden: true }] };
  const parent = checkpoints.rows.find((row) => row.seq === head.head?.parent);
  if (!parent && head.head?.parent !== undefined)
    return "its parent cannot be read, so its branch would appear to be empty";
  const headParentId = checkpoints.rows.find((row) => row.seq === parent?.parent)?.id;
  return { rows, branches: [{ ...head, head: parent, headParentId }] };
}

/** The changes from the newest intact state of a session to a checkpoint. */
async function changesTo(session: Session, id: string): Promise<readonly Change[]> {
  const head = await session.head();
  if (!head) return [];
  try {
    return await session.diff(head.id, id);
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    const intact = await session.latest();
    return intact ? session.diff(intact.id, id) : [];
  }
}

async function* ofKind(
  checkpoints: AsyncIterable<AnyCheckpointInfo>,
  kind: CheckpointKind | undefined,
): AsyncGenerator<AnyCheckpointInfo> {
  for await (const info of checkpoints) if (kind === undefined || info.kind === kind) yield info;
}

function notFound(id: string): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `There is no checkpoint ${JSON.stringify(id)}. sp.checkpoints.list() lists all checkpoints.`,
    { details: { checkpointId: id } },
  );
}
