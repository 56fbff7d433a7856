/** Checkpoints of agents: an agent and all of its conversations at one moment. */
import { validatePlainObject, type Duration } from "../util/index.js";
import {
  AgentRepository,
  type StoredAgent,
  type AgentState,
  toSavedAgent,
  toSavedAgentInfo,
  decodeAgentMetadata,
} from "./repository.js";
import {
  agentHistoryId,
  agentOfHistoryId,
  type CheckpointInfo,
  type CheckpointKind,
  conversationKey,
  decodeMetadata,
  encodeMetadata,
  encodeSnapshotBase,
  MAIN,
  type CheckpointRow,
  rowKey,
  snapshotBaseKey,
} from "../records/index.js";
import type { Check } from "../store/index.js";
import { isSavepointError } from "../errors.js";
import type { Context } from "../context.js";
import {
  decodeSnapshot,
  type ConversationInfo,
  type ConversationSnapshot,
  isSameSnapshot,
  newStamp,
  removeMarks,
  type StoredConversation,
  toSnapshotInfo,
} from "../conversations/index.js";
import { readAgentState, readSnapshots } from "./snapshots.js";
import { type Cursors, type Migrations, SessionReader } from "../sessions/index.js";
import { agentNotFound, type SavedAgent } from "./saved-agent.js";

/** A checkpoint of an agent, without its contents. `metadata` is the metadata of the checkpoint, not of the agent. */
export interface AgentCheckpointInfo extends Omit<CheckpointInfo, "sessionId" | "agent"> {
  /** A checkpoint of an agent belongs to no session. */
  readonly sessionId: undefined;
  readonly agent: string;
}

/** A checkpoint of an agent: the agent at that moment, and its conversations without their messages. */
export interface AgentCheckpoint extends AgentCheckpointInfo {
  readonly state: SavedAgent<unknown>;
  /** Load the messages of a conversation at that moment with `sp.conversations.load(id, { at: checkpoint.id })`. */
  readonly conversations: readonly ConversationInfo[];
  /** The ids of conversations that were erased from it with `sp.erase()`. */
  readonly erased: readonly string[];
}

/** A checkpoint of an agent to create. */
export interface CreateCheckpointOptions {
  readonly agent: string;
  readonly label?: string;
  readonly description?: string;
  /** @default "manual" */
  readonly kind?: CheckpointKind;
  readonly metadata?: object;
  /** A pinned checkpoint is never pruned. @default false */
  readonly pinned?: boolean;
  readonly trigger?: string;
  /** The lifetime of the checkpoint. An expired one is removed, unless pinned or the newest. @default unlimited */
  readonly ttl?: Duration;
}

/** Creates and loads checkpoints of agents. */
export class AgentCheckpoints {
  readonly #context: Context;
  readonly #cursors: Cursors;
  readonly #migrations: Migrations;

  constructor(context: Context, cursors: Cursors, migrations: Migrations) {
    this.#context = context;
    this.#cursors = cursors;
    this.#migrations = migrations;
  }

  /** The stored versions of an agent. */
  repository(agent: string): AgentRepository {
    return new AgentRepository(this.#context, this.#cursors, agent, this.#migrations.of(agent));
  }

  /**
   * Creates a checkpoint of an agent and its conversations at one moment.
   *
   * @throws DAMAGED if a conversation cannot be read
   */
  async create(options: CreateCheckpointOptions): Promise<AgentCheckpointInfo> {
    const { agent, metadata, ...saveOptions } = options;
    const { registry } = this.#context;
    validatePlainObject(metadata, "The metadata of a checkpoint");
    // A copy, because the object belongs to the caller.
    const own = decodeMetadata(encodeMetadata(metadata, registry), registry);
    const repository = this.repository(agent);
    let attempts = 0;
    const info = await repository.save(async (found) => {
      if (!found) throw agentNotFound(agent);
      const { reader } = repository;
      const { base, baseCheck, read, conversations } = await readSnapshots(reader, found);
      const stamp = base && read.found.size === 0 ? base.stamp : newStamp();
      // A conversation may be changed at any time. Then only the first attempt fails; later attempts leave the marks to the next checkpoint.
      const { checks, deletes } = removeMarks(attempts++ === 0 ? read.marks : new Map());
      // Replacing messages changes the record, so the check ensures that no message is freed before the checkpoint refers to it.
      for (const each of read.found.values()) if (each && "value" in each) checks.push(checkOf(each));
      return {
        state: { ...found.state, conversations },
        metadata: { agent: { ...found.metadata.agent, version: found.version, snapshots: stamp }, own },
        options: saveOptions,
        asCheckpoint: true,
        more: ({ number, seq }) => ({
          // The base keeps the messages of the other snapshots until this checkpoint is committed.
          checks: [...checks, baseCheck, ...(base ? [{ key: rowKey(number, base.seq), exists: true } as const] : [])],
          deletes,
          puts: [{ key: snapshotBaseKey(agent), value: encodeSnapshotBase({ stamp, seq }) }],
        }),
      };
    });
    return toAgentCheckpointInfo(agent, info, own);
  }

  /** Whether the agent, or any of its conversations, has changed since the agent's newest checkpoint. */
  async hasChanged(agent: string): Promise<boolean> {
    const repository = this.repository(agent);
    const found = await repository.require();
    const { branch } = await repository.reader.heads(MAIN);
    if (branch?.record.hidden !== false) return true;
    try {
      const { conversations } = await readSnapshots(repository.reader, found);
      return !isSameSnapshots(conversations, found.state.conversations);
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return true;
      throw error;
    }
  }

  /** Loads the checkpoint of a row, with the agent's state migrated. */
  async load(agent: string, number: number, row: CheckpointRow): Promise<AgentCheckpoint> {
    const repository = this.repository(agent);
    const { reader } = repository;
    const info = await reader.loadInfo(number, row, agent);
    const stored = await readAgentState(reader, number, row);
    const { state } = await repository.migrate(toStoredAgent(reader, row, stored));
    const found = toStoredAgent(reader, row, state);
    const conversations = [...stored.conversations].map(([id, entry]) =>
      toSnapshotInfo(id, decodeSnapshot(entry, agent), this.#context),
    );
    const active = conversations.filter(({ archived }) => !archived).map(({ id }) => id);
    const { own, erased = [] } = found.metadata;
    return { ...toAgentCheckpointInfo(agent, info, own), state: toSavedAgent(found, active), conversations, erased };
  }

  /** A conversation as it was at a checkpoint; `undefined` if it did not exist then. */
  async findConversation(
    agent: string,
    number: number,
    row: CheckpointRow,
    id: string,
  ): Promise<ConversationSnapshot | undefined> {
    const reader = new SessionReader(this.#context, agentHistoryId(agent));
    const { conversations } = await readAgentState(reader, number, row);
    const entry = conversations.get(id);
    return entry === undefined ? undefined : decodeSnapshot(entry, agent);
  }
}

function checkOf({ id, value }: StoredConversation): Check {
  return { key: conversationKey(id), value };
}

function isSameSnapshots(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([id, entry]) => isSameSnapshot(b.get(id) ?? "", entry));
}

/** The version of an agent in a row. */
function toStoredAgent(reader: SessionReader, row: CheckpointRow, state: AgentState): StoredAgent {
  const metadata = decodeAgentMetadata(row, reader);
  const info = toSavedAgentInfo(agentOfHistoryId(reader.sessionId) ?? "", row, metadata);
  return { info, metadata, state, row, headId: row.id, version: info.version, skipped: [] };
}

/** A checkpoint of an agent, in its public form. */
export function toAgentCheckpointInfo(
  agent: string,
  info: CheckpointInfo,
  own: Readonly<Record<string, unknown>>,
): AgentCheckpointInfo {
  return { ...info, sessionId: undefined, agent, metadata: own };
}
