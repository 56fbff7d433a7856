/** All checkpoints of a store: those of sessions, and those of whole agents. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Change } from "../state/index.js";
import { validateFields, createListing, invalidArgument, type Listing, limitEntries } from "../util/index.js";
import { checkId, type Checkpoint, type CheckpointInfo, type CheckpointKind, MAIN } from "../records/index.js";
import type {
  AgentCheckpoint,
  AgentCheckpointInfo,
  AgentCheckpoints,
  CreateCheckpointOptions,
  AgentRestorer,
  RestorePlan,
} from "../agents/index.js";
import { findCheckpoint, type CheckpointMatch } from "../sessions/index.js";
import type { Context } from "../context.js";
import { findByName } from "./find-by-name.js";
import { type CheckpointFilter, walkCheckpoints } from "./list-checkpoints.js";
import { describeNeed, enforceRetention, removeCheckpoints, stillNeeded } from "../retention/index.js";
import type { Session } from "./session.js";

const CREATE_FIELDS = new Set(["agent", "label", "description", "kind", "metadata", "pinned", "trigger", "ttl"]);
const LIST_FIELDS = new Set(["agent", "session", "of", "kind", "limit"]);

/** What the checkpoints need of the Savepoint they belong to. */
export interface CheckpointHost {
  /** @throws CLOSED */
  open(): Context;
  readonly agents: AgentCheckpoints;
  restore(agent: string): AgentRestorer;
  session(id: string, branch: string): Session;
  /** Told that the records of a session were changed by other means than a save. */
  resetCursors(sessionId: string): void;
}

export type AnyCheckpointInfo = CheckpointInfo | AgentCheckpointInfo;

/** What going back to a checkpoint has changed. */
export interface RestoreReport extends RestorePlan {
  /** The checkpoint that is the newest now: of kind `recovery`, and like the one that was gone back to. */
  readonly checkpoint: AnyCheckpointInfo;
  /** What was there before: restoring this one undoes it. */
  readonly before: AnyCheckpointInfo;
}

export interface CheckpointListOptions extends CheckpointFilter {
  /** At most this many. */
  readonly limit?: number;
  readonly kind?: CheckpointKind;
}

/**
 * All checkpoints of a store.
 *
 * @example
 * const checkpoint = await sp.checkpoints.create({ agent: "support", label: "before the storm" });
 * const { before } = await sp.checkpoints.restore(checkpoint.id);
 * await sp.checkpoints.restore(before.id); // undone
 */
export class Checkpoints {
  readonly #host: CheckpointHost;

  /** Use `sp.checkpoints`. */
  constructor(host: CheckpointHost) {
    this.#host = host;
  }

  /**
   * Takes a checkpoint of a whole agent: the agent and all its conversations, at one moment. Sessions have checkpoints of
   * their own. Costs a short text per conversation that has changed since the last one; messages are not copied.
   */
  async create(options: CreateCheckpointOptions): Promise<AgentCheckpointInfo> {
    this.#host.open();
    validateFields(options, "What is said about a checkpoint", CREATE_FIELDS);
    checkId(options.agent, "agent id");
    const created = await this.#host.agents.create(options);
    await this.#obeyLimits(options.agent, created);
    return created;
  }

  /** A checkpoint of a session or of an agent, by its id or `session#seq`; `undefined` if there is none. */
  async load(id: string): Promise<Checkpoint | AgentCheckpoint | undefined> {
    const found = await this.#find(id);
    if (!found) return undefined;
    if (found.agent !== undefined) return this.#host.agents.load(found.agent, found.number, found.row);
    return this.#host.session(found.reader.sessionId, MAIN).load(found.row.id);
  }

  /**
   * The checkpoints that a name may mean, without their states: none, one, or several if it is ambiguous. A name is an id,
   * its last eight characters, `session#seq`, `session@branch` (its newest) or `session` (the newest of `main`). Looking for
   * the end of an id reads every row of the store, and no states.
   */
  async find(name: string): Promise<AnyCheckpointInfo[]> {
    return findByName(this.#host.open(), checkId(name, "name of a checkpoint"));
  }

  /**
   * The newest whole one of those that {@link list} gives; `undefined` if it gives none. Damaged ones are stepped over, and
   * told by the event `damage`; where none is whole it is `DAMAGED`.
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

  /** Checkpoints of sessions and agents without their states, newest first. */
  list(options: CheckpointListOptions = {}): Listing<AnyCheckpointInfo> {
    validateFields(options, "What limits a list of checkpoints", LIST_FIELDS);
    const { limit = Number.POSITIVE_INFINITY, kind, ...filter } = options;
    if (filter.of !== undefined && filter.of !== "agent" && filter.of !== "session") {
      throw invalidArgument(
        `There are checkpoints of an "agent" and of a "session", not of ${JSON.stringify(filter.of)}.`,
      );
    }
    const context = (): Context => this.#host.open();
    return createListing(() => limitEntries(ofKind(walkCheckpoints(context(), filter), kind), limit));
  }

  /**
   * Goes back to a checkpoint of an agent: it and its conversations are as they were then, newer conversations are
   * removed. One transaction; what was there is kept as a checkpoint first. Sessions are not touched. For a checkpoint
   * of a session it is what `rewind` is on its branch.
   *
   * @param options.dryRun only say what would change
   */
  async restore(id: string, options: { readonly dryRun: true }): Promise<RestorePlan>;
  async restore(id: string, options?: { readonly dryRun?: false }): Promise<RestoreReport>;
  async restore(id: string, options: { readonly dryRun?: boolean } = {}): Promise<RestorePlan | RestoreReport> {
    const found = await this.#find(id);
    if (!found) throw notFound(id);
    if (found.agent === undefined) return this.#rewind(found, options.dryRun ?? false);
    const { agent, number, row } = found;
    if (options.dryRun) return this.#host.restore(agent).plan(number, row);
    const { plan, checkpoint, before } = await this.#host.restore(agent).restore(number, row);
    await this.#obeyLimits(agent, checkpoint);
    return { ...plan, checkpoint, before };
  }

  /**
   * Deletes one checkpoint. Where it is the newest of its session, that goes on from the one before it; an agent stays as
   * it is. Returns whether there was one; `CONFLICT` where something needs it.
   */
  async delete(id: string): Promise<boolean> {
    const found = await this.#find(id);
    if (!found) return false;
    const { reader, row } = found;
    const removed = await removeCheckpoints(reader, (checkpoints) => {
      const rows = checkpoints.rows.filter(({ seq }) => seq === row.seq);
      const refuse = (why: string): never => {
        throw stillNeeded(reader.sessionId, row, why);
      };
      const [need] = checkpoints.needed.get(row.seq) ?? [];
      if (need) refuse(describeNeed(need));
      const [head, other] = checkpoints.heads.get(row.seq) ?? [];
      if (!head) return { rows };
      if (other) refuse(`it is the head of ${JSON.stringify(head.name)} and ${JSON.stringify(other.name)}`);
      if (head.held) refuse("its session is being run");
      if (head.hidden) refuse("it is where its session goes on from");
      if (found.agent !== undefined) return { rows, branches: [{ ...head, hidden: true }] };
      const parent = checkpoints.rows.find(({ seq }) => seq === head.head?.parent);
      if (!parent && head.head?.parent !== undefined) {
        refuse("the one before it cannot be read, and the session would seem empty");
      }
      const parentId = checkpoints.rows.find(({ seq }) => seq === parent?.parent)?.id;
      return { rows, branches: [{ ...head, head: parent, headParentId: parentId }] };
    });
    this.#host.resetCursors(reader.sessionId);
    return removed.length > 0;
  }

  /** Removes checkpoints of an agent that are too many, now that one was taken. */
  async #obeyLimits(agent: string, taken: AgentCheckpointInfo): Promise<void> {
    const line = this.#host.agents.repository(agent);
    await enforceRetention(line.reader, line.cursor, taken);
  }

  /** Going back to a checkpoint of a session. */
  async #rewind({ reader, number, row }: CheckpointMatch, dryRun: boolean): Promise<RestorePlan | RestoreReport> {
    const session = this.#host.session(reader.sessionId, row.branch);
    const changes = await changesTo(session, row.id);
    const none = { restored: [], recreated: [], removed: [] };
    const plan: RestorePlan = { agent: undefined, sessionId: reader.sessionId, changes, ...none };
    if (dryRun) return plan;
    const checkpoint = await session.rewind(row.id);
    // The commit that goes back writes what was there right before it.
    const kept = await reader.row(number, checkpoint.seq - 1);
    if (!kept || "unreadable" in kept) throw notFound(`${reader.sessionId}#${checkpoint.seq - 1}`);
    return { ...plan, checkpoint, before: await reader.loadInfo(number, kept, checkpoint.agent) };
  }

  async #find(id: string): Promise<CheckpointMatch | undefined> {
    const context = this.#host.open();
    if (typeof id !== "string") throw invalidArgument(`A checkpoint is named by its id, not by a ${typeof id}.`);
    return findCheckpoint(context, id);
  }
}

/** What leads from the newest whole state to a checkpoint. */
async function changesTo(session: Session, id: string): Promise<readonly Change[]> {
  const head = await session.head();
  if (!head) return [];
  try {
    return await session.diff(head.id, id);
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    const whole = await session.latest();
    return whole ? session.diff(whole.id, id) : [];
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
    `There is no checkpoint ${JSON.stringify(id)}. sp.checkpoints.list() names those there are.`,
    { details: { checkpointId: id } },
  );
}
