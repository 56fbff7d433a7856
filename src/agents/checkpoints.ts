/** Checkpoints of agents: an agent and all of its conversations at one moment. */
import { validatePlainObject, type Duration } from "../util/index.js";
import {
  AgentRepository,
  type StoredAgent,
  type AgentState,
  toSavedAgent,
  toSavedAgentInfo,
  decodeAgentMetadata,
  decodeAgentState,
} from "./repository.js";
import {
  agentHistoryId,
  agentOfHistoryId,
  type CheckpointInfo,
  type CheckpointKind,
  conversationKey,
  decodeMetadata,
  encodeMetadata,
  MAIN,
  type CheckpointRow,
} from "../records/index.js";
import type { Context } from "../context.js";
import {
  decodeSnapshot,
  encodeSnapshot,
  type ConversationInfo,
  type ConversationSnapshot,
  isSameSnapshot,
  readAgentConversations,
  type StoredConversation,
  toSnapshotInfo,
  unreadableConversation,
} from "../conversations/index.js";
import { type Cursors, loadShadow, type Migrations, SessionReader } from "../sessions/index.js";
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
    const info = await this.repository(agent).save(async (found) => {
      if (!found) throw agentNotFound(agent);
      const { intact, damaged } = await readAgentConversations(this.#context, agent);
      if (damaged[0]) throw unreadableConversation(agent, damaged[0].unreadable);
      return {
        state: { ...found.state, conversations: snapshotsOf(intact) },
        metadata: { agent: { ...found.metadata.agent, version: found.version }, own },
        options: saveOptions,
        asCheckpoint: true,
        // Replacing messages changes the record, so the check ensures that no message is freed before the checkpoint
        // refers to it.
        more: { checks: intact.map(({ id, value }) => ({ key: conversationKey(id), value })) },
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
    const { intact, damaged } = await readAgentConversations(this.#context, agent);
    return damaged.length > 0 || !isSameSnapshots(snapshotsOf(intact), found.state.conversations);
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
    const { own } = found.metadata;
    return { ...toAgentCheckpointInfo(agent, info, own), state: toSavedAgent(found, active), conversations };
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

/** Encoded snapshots of these conversations, by id. */
export function snapshotsOf(conversations: readonly StoredConversation[]): Map<string, string> {
  return new Map(conversations.map((conversation) => [conversation.id, encodeSnapshot(conversation)]));
}

function isSameSnapshots(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([id, entry]) => isSameSnapshot(b.get(id) ?? "", entry));
}

/** Reads the state of a row of an agent, as it is stored. */
export async function readAgentState(reader: SessionReader, number: number, row: CheckpointRow): Promise<AgentState> {
  const shadow = await loadShadow(reader, number, row);
  return decodeAgentState(shadow, reader, agentOfHistoryId(reader.sessionId) ?? "");
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
