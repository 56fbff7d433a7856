/**
 * An agent as it is stored: a session of its own, whose state is the agent.
 *
 * Saving the agent makes a head without a row. A checkpoint of the whole agent is a row, whose state also says where the
 * messages of each of its conversations were: a short text each, which is written again only when the conversation has
 * changed. What listings show of an agent stands in the row itself.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import {
  type Author,
  type BranchCursor,
  type CommitParts,
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
import type { Context } from "../context.js";
import { renumberSnapshots, readNumberMoves } from "../conversations/index.js";
import type { SavedAgent, SavedAgentInfo, AgentContent } from "./saved-agent.js";
import { type Shadow, shadowToValue } from "../state/index.js";

/** The state of an agent's line. */
export interface AgentState {
  readonly systemPrompt?: string;
  readonly config: Record<string, unknown>;
  readonly state: unknown;
  /** What the checkpoint has of each conversation, by id; see conversation-entry.ts. */
  readonly conversations: ReadonlyMap<string, string>;
}

/** What the rows of an agent's line say beside their state. */
export interface AgentMetadata {
  readonly agent: Pick<SavedAgentInfo, "name" | "type" | "capabilities" | "metadata" | "createdAt" | "version"> & {
    /** How many migrations its state has been through. */
    readonly schema: number;
  };
  /** What the caller said about the checkpoint. */
  readonly own: Record<string, unknown>;
}

/** An agent as it is stored: its state may be of an earlier version. */
export interface StoredAgent {
  readonly info: SavedAgentInfo;
  readonly metadata: AgentMetadata;
  readonly state: AgentState;
  readonly row: CheckpointRow;
  /** The newest version, by its id: another one than the row's, if that is damaged. */
  readonly headId: string | undefined;
  /** The highest version that it has had. */
  readonly version: number;
  readonly skipped: readonly SkippedCheckpoint[];
}

/** What is to be saved. */
export interface AgentChange {
  readonly state: AgentState;
  readonly metadata: AgentMetadata;
  readonly options: SaveOptions;
  /** Does it stay as a checkpoint? */
  readonly asCheckpoint: boolean;
  readonly more?: CommitParts;
}

/** Each time somebody else was faster; more often than that, something else is wrong. */
const MAX_TRIES = 100;

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

  /** How many migrations the state of this agent has been through when it is saved. Refuses what is too new. */
  schemaAfter(before: number): number {
    const known = this.#plan.agent.length;
    if (known > 0 && before > known) throw agentTooOld(describeSession(this.reader.sessionId), before, known);
    return Math.max(before, known);
  }

  /** The newest whole version of the agent; `undefined` if it was never saved. */
  async load(): Promise<StoredAgent | undefined> {
    return this.#retry(() => this.#exclusive((cursor) => this.#find(cursor)));
  }

  /** The same agent with its state brought up to date. */
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
   * Saves what `make` makes of the agent as it is. It is asked again if somebody else saves it meanwhile.
   *
   * @param make gets `undefined` where the agent was never saved; and what is known of its newest version in any case
   * @param overwrite is it all the same what was there? Then it may be damaged, and counts as never saved
   */
  async save(
    make: (
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
        // The row of a damaged version can be read where its state cannot.
        const last = head && decodeAgentMetadata(head, this.reader).agent;
        return this.#commit(cursor, head?.id, await make(found, last));
      }),
    );
  }

  async #retry<T>(attempt: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof LineMoved) || tries === MAX_TRIES) throw error;
      }
    }
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
        if (branch?.record.head?.id !== head) throw new LineMoved(this.id);
      },
    };
    const extension: SaveExtension = {
      hidden: !change.asCheckpoint,
      epoch: 0,
      held: false,
      tapes: 0,
      build: () => change.more ?? {},
    };
    try {
      return await cursor.save({ live: change.state }, options, author, extension);
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) throw new LineMoved(this.id, error);
      throw error;
    }
  }

  async #row(info: CheckpointInfo): Promise<CheckpointRow> {
    const number = (await this.reader.session())?.record.number ?? -1;
    const row = await this.reader.row(number, info.seq);
    if (row && !("unreadable" in row)) return row;
    throw new LineMoved(this.id);
  }

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

/** Somebody else has saved the agent, or changed a conversation of it, since it was looked at. */
class LineMoved extends SavepointError<"CONFLICT"> {
  constructor(id: string, cause?: unknown) {
    super("CONFLICT", `Agent ${JSON.stringify(id)} was changed by others again and again. Try again.`, { cause });
  }
}

/** What the row of an agent's line says of the agent. */
export function decodeAgentMetadata(row: CheckpointRow, reader: SessionReader): AgentMetadata {
  return decodeMetadata(row.metadata, reader.context.registry) as unknown as AgentMetadata;
}

export function toSavedAgentInfo(id: string, row: CheckpointRow, { agent }: AgentMetadata): SavedAgentInfo {
  const { name, type, capabilities, metadata, createdAt, version } = agent;
  return { id, name, type, capabilities, metadata, createdAt, modifiedAt: row.createdAt, version };
}

/** The state of an agent's line, with the numbers that conversations have here. */
export async function decodeAgentState(shadow: Shadow, { context }: SessionReader, agent: string): Promise<AgentState> {
  const state = shadowToValue(shadow, context.registry) as AgentState;
  return { ...state, conversations: renumberSnapshots(state.conversations, await readNumberMoves(context, agent)) };
}

/** The part of an agent that its state has. */
export function buildAgentState(taken: AgentContent, conversations: AgentState["conversations"]): AgentState {
  const { systemPrompt, config, state } = taken;
  return { ...(systemPrompt !== undefined && { systemPrompt }), config, state, conversations };
}

/** The agent as callers see it. */
export function toSavedAgent(found: StoredAgent, activeConversations: readonly string[]): SavedAgent<unknown> {
  const { systemPrompt, config, state } = found.state;
  return { ...found.info, systemPrompt, config, state, activeConversations, skipped: found.skipped };
}
