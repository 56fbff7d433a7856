/**
 * The stored versions of an agent: a session of its own, the agent's history, whose state is the agent.
 *
 * A save of the agent writes a hidden head. A checkpoint of the agent is a row, whose state also contains a snapshot of
 * each of the agent's conversations: a short string that is written again only if the conversation has changed. The
 * fields that listings show are in the row's metadata, so that listing reads no states.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import {
  type Author,
  type BranchCursor,
  type Cursors,
  describeSession,
  loadLatestIntact,
  type Heads,
  migrateIfDeclared,
  type MigrationPlan,
  type SaveExtension,
  SessionReader,
  type SaveFields,
  parseSaveOptions,
  agentTooOld,
} from "../sessions/index.js";
import {
  agentHistoryId,
  type CheckpointInfo,
  decodeMetadata,
  MAIN,
  type CheckpointRow,
  type SaveOptions,
  type SkippedCheckpoint,
} from "../records/index.js";
import { isCounter, isNumber, isString, listOf, objectOf, optional, retryOnConflict } from "../util/index.js";
import type { Context } from "../context.js";
import { renumberSnapshots, readNumberMoves } from "../conversations/index.js";
import { agentNotFound, type SavedAgent, type SavedAgentInfo, type AgentContent } from "./saved-agent.js";
import { type Shadow, shadowToValue } from "../state/index.js";

/** The state in an agent's history. */
export interface AgentState {
  readonly systemPrompt?: string;
  readonly config: Record<string, unknown>;
  readonly state: unknown;
  /** Encoded snapshots of the agent's conversations, by id. Only the snapshots in checkpoints are up to date. */
  readonly conversations: ReadonlyMap<string, string>;
}

/** The metadata of the rows in an agent's history. */
export interface AgentMetadata {
  readonly agent: Pick<SavedAgentInfo, "name" | "type" | "capabilities" | "metadata" | "createdAt" | "version"> & {
    /** How many migrations were applied to its state. */
    readonly schema: number;
    /** The stamp of its snapshots of conversations; see `SnapshotBase`. */
    readonly snapshots?: string | undefined;
  };
  /** The metadata that the caller gave to the checkpoint. */
  readonly own: Record<string, unknown>;
  /** The ids of conversations that were erased from the checkpoint. */
  readonly erased?: readonly string[] | undefined;
}

/** The newest intact version of an agent. Its state is not migrated. */
export interface StoredAgent {
  readonly info: SavedAgentInfo;
  readonly metadata: AgentMetadata;
  readonly state: AgentState;
  readonly row: CheckpointRow;
  /** The id of the newest version. If the newest version is damaged, this differs from the id of the row. */
  readonly headId: string | undefined;
  /** The highest version number so far, including damaged versions. */
  readonly version: number;
  readonly skipped: readonly SkippedCheckpoint[];
}

/** A new version of an agent. */
export interface AgentChange {
  readonly state: AgentState;
  readonly metadata: AgentMetadata;
  readonly options: SaveOptions;
  /** Whether the version is a checkpoint. The next save replaces a version that is not. */
  readonly asCheckpoint: boolean;
  /** Builds further parts of the commit, for the place of the new version. */
  readonly more?: SaveExtension["build"];
}

/** Attempts while other processes save the agent. */
const MAX_ATTEMPTS = 100;

/** Loads and saves one agent. */
export class AgentRepository {
  readonly id: string;
  readonly reader: SessionReader;
  readonly #cursors: Cursors;
  readonly #plan: MigrationPlan;

  constructor(context: Context, cursors: Cursors, id: string, plan: MigrationPlan) {
    this.id = id;
    this.reader = new SessionReader(context, agentHistoryId(id));
    this.#cursors = cursors;
    this.#plan = plan;
  }

  /** The schema version to save the agent with. Rejects an agent that was saved by a newer program. */
  schemaAfter(before: number): number {
    const declared = this.#plan.agent.length;
    if (declared > 0 && before > declared) throw agentTooOld(describeSession(this.reader.sessionId), before, declared);
    return Math.max(before, declared);
  }

  /** Loads the newest intact version of the agent; `undefined` if it was never saved. */
  async load(): Promise<StoredAgent | undefined> {
    return this.#retry(() => this.#exclusive((cursor) => this.#find(cursor)));
  }

  /** Like {@link load}, but throws `AGENT_NOT_FOUND` if the agent was never saved. */
  async require(): Promise<StoredAgent> {
    const found = await this.load();
    if (!found) throw agentNotFound(this.id);
    return found;
  }

  /** The same agent with all migrations applied to its state. */
  async migrate(found: StoredAgent): Promise<StoredAgent> {
    const { schema } = found.metadata.agent;
    const whose = describeSession(this.reader.sessionId);
    const state = await migrateIfDeclared(whose, this.#plan.agent, schema, found.state.state);
    return { ...found, state: { ...found.state, state } };
  }

  async #find(cursor: BranchCursor): Promise<StoredAgent | undefined> {
    let head: CheckpointRow | undefined;
    const found = await loadLatestIntact(this.reader, cursor, ({ branch }) => (head = branch?.record.head));
    if (!found) return undefined;
    const { info, shadow, skipped } = found;
    const row = head?.seq === info.seq ? head : await this.#row(info);
    const metadata = decodeAgentMetadata(row, this.reader);
    const state = await decodeAgentState(shadow, this.reader, this.id);
    const version = Math.max(metadata.agent.version, head ? decodeAgentMetadata(head, this.reader).agent.version : 0);
    return { info: toSavedAgentInfo(this.id, row, metadata), metadata, state, row, headId: head?.id, version, skipped };
  }

  /**
   * Saves a new version of the agent. If another process saves the agent meanwhile, `change` is called again.
   *
   * @param change builds the new version from the stored one, or from `undefined` if the agent was never saved; `last`
   *   is set even if the stored version is damaged
   * @param overwrite whether a damaged agent is overwritten; it then counts as never saved
   */
  async save(
    change: (
      found: StoredAgent | undefined,
      last: Pick<SavedAgentInfo, "version" | "createdAt"> | undefined,
    ) => Promise<AgentChange> | AgentChange,
    overwrite = false,
  ): Promise<CheckpointInfo> {
    return this.#retry(() =>
      this.#exclusive(async (cursor) => {
        const found = await this.#find(cursor).catch((error: unknown) => {
          if (overwrite && isSavepointError(error, "DAMAGED") && cursor.head) return undefined;
          throw error;
        });
        const { head } = cursor;
        // The row of a version can be intact although its state is damaged.
        const last = head && decodeAgentMetadata(head, this.reader).agent;
        return this.#commit(cursor, head?.id, await change(found, last));
      }),
    );
  }

  #retry<T>(attempt: () => Promise<T>): Promise<T> {
    return retryOnConflict(attempt, {
      isRetryable: (error, number) => error instanceof AgentChanged && number < MAX_ATTEMPTS,
    });
  }

  async #commit(cursor: BranchCursor, head: string | undefined, change: AgentChange): Promise<CheckpointInfo> {
    const { registry } = this.reader.context;
    const options: SaveFields = parseSaveOptions(
      { ...change.options, metadata: change.metadata as unknown as Record<string, unknown> },
      registry,
    );
    const author: Author = {
      agent: undefined,
      admit: ({ branch }: Heads) => {
        if (branch?.record.head?.id !== head) throw new AgentChanged(this.id);
      },
    };
    const extension: SaveExtension = {
      hidden: !change.asCheckpoint,
      epoch: 0,
      held: false,
      tapes: 0,
      build: (place) => change.more?.(place) ?? {},
    };
    try {
      return await cursor.save({ live: change.state }, options, author, extension);
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) throw new AgentChanged(this.id, error);
      throw error;
    }
  }

  async #row(info: CheckpointInfo): Promise<CheckpointRow> {
    const number = (await this.reader.session())?.record.number ?? -1;
    const row = await this.reader.row(number, info.seq);
    if (row && !("unreadable" in row)) return row;
    throw new AgentChanged(this.id);
  }

  /** The cursor of the agent's history. */
  get cursor(): BranchCursor {
    return this.#cursors.get(this.reader, MAIN);
  }

  async #exclusive<T>(work: (cursor: BranchCursor) => Promise<T>): Promise<T> {
    const { cursor } = this;
    try {
      return await cursor.exclusive(() => work(cursor));
    } finally {
      this.#cursors.enforceBudget(cursor);
    }
  }
}

/** Another process has saved the agent, or changed one of its conversations, since it was read. */
class AgentChanged extends SavepointError<"CONFLICT"> {
  constructor(id: string, cause?: unknown) {
    super(
      "CONFLICT",
      `Agent ${JSON.stringify(id)} was changed by other processes during each of ${MAX_ATTEMPTS} attempts. Try again.`,
      { cause },
    );
  }
}

/** Decodes the metadata of a row in an agent's history. */
export function decodeAgentMetadata(row: CheckpointRow, reader: SessionReader): AgentMetadata {
  const metadata: unknown = decodeMetadata(row.metadata, reader.context.registry);
  if (isAgentMetadata(metadata)) return metadata as AgentMetadata;
  throw new SavepointError("DAMAGED", `Checkpoint #${row.seq} of the agent is invalid: it does not describe an agent.`);
}

const isAgentMetadata = objectOf({
  agent: objectOf({
    name: isString,
    type: optional(isString),
    capabilities: listOf(isString),
    createdAt: isNumber,
    version: isCounter,
    snapshots: optional(isString),
  }),
  erased: optional(listOf(isString)),
});

/**
 * The part of the metadata about the agent, without its stamp. A version with changed snapshots has no stamp, so that the next
 * checkpoint reads all conversations.
 */
export function withoutStamp({
  agent: { snapshots: _stamp, ...agent },
}: AgentMetadata): Omit<AgentMetadata["agent"], "snapshots"> {
  return agent;
}

/** An agent without its state, in its public form. */
export function toSavedAgentInfo(id: string, row: CheckpointRow, { agent }: AgentMetadata): SavedAgentInfo {
  const { name, type, capabilities, metadata, createdAt, version } = agent;
  return { id, name, type, capabilities, metadata, createdAt, modifiedAt: row.createdAt, version };
}

/** Decodes a state in an agent's history. The snapshots get the numbers that the conversations have in this store. */
export async function decodeAgentState(shadow: Shadow, { context }: SessionReader, agent: string): Promise<AgentState> {
  const state = shadowToValue(shadow, context.registry) as AgentState;
  if (!isAgentState(state))
    throw new SavepointError("DAMAGED", `The state of agent ${JSON.stringify(agent)} is invalid.`);
  return { ...state, conversations: renumberSnapshots(state.conversations, await readNumberMoves(context, agent)) };
}

const isAgentState = objectOf({
  systemPrompt: optional(isString),
  conversations: (value) => value instanceof Map && [...value].flat().every(isString),
});

/** The part of an agent that is stored in its state. */
export function buildAgentState(content: AgentContent, conversations: AgentState["conversations"]): AgentState {
  const { systemPrompt, config, state } = content;
  return { ...(systemPrompt !== undefined && { systemPrompt }), config, state, conversations };
}

/** An agent with its state, in its public form. */
export function toSavedAgent(found: StoredAgent, activeConversations: readonly string[]): SavedAgent<unknown> {
  const { systemPrompt, config, state } = found.state;
  return { ...found.info, systemPrompt, config, state, activeConversations, skipped: found.skipped };
}
