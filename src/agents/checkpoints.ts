/** Checkpoints of whole agents: taking them, and reading them. */
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
import type { AgentCheckpoint, AgentCheckpointInfo } from "./agent-checkpoint.js";
import type { Context } from "../context.js";
import {
  decodeSnapshot,
  encodeSnapshot,
  type ConversationSnapshot,
  isSameSnapshot,
  readAgentConversations,
  type StoredConversation,
  toSnapshotInfo,
  unreadableConversation,
} from "../conversations/index.js";
import { type Cursors, loadShadow, type Migrations, SessionReader } from "../sessions/index.js";
import { agentNotFound } from "./saved-agent.js";

/** What can be said about a checkpoint of an agent. */
export interface CreateCheckpointOptions {
  readonly agent: string;
  readonly label?: string;
  readonly description?: string;
  /** @default "manual" */
  readonly kind?: CheckpointKind;
  readonly metadata?: object;
  /** Pinned ones are never pruned. @default false */
  readonly pinned?: boolean;
  readonly trigger?: string;
  /** How long it is wanted; then it goes, unless it is pinned or the newest. @default for ever */
  readonly ttl?: Duration;
}

export class AgentCheckpoints {
  readonly #context: Context;
  readonly #cursors: Cursors;
  readonly #migrations: Migrations;

  constructor(context: Context, cursors: Cursors, migrations: Migrations) {
    this.#context = context;
    this.#cursors = cursors;
    this.#migrations = migrations;
  }

  repository(agent: string): AgentRepository {
    return new AgentRepository(this.#context, this.#cursors, agent, this.#migrations.of(agent));
  }

  /** Takes a checkpoint of an agent and its conversations as they are at one moment. */
  async create(options: CreateCheckpointOptions): Promise<AgentCheckpointInfo> {
    const { agent, metadata, ...saveOptions } = options;
    const { registry } = this.#context;
    validatePlainObject(metadata, "The metadata of a checkpoint");
    // A copy: the object is the caller's own.
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
        // Whatever cuts messages off changes the record: those that it names must not be freed before it is there.
        more: { checks: intact.map(({ id, value }) => ({ key: conversationKey(id), value })) },
      };
    });
    return toAgentCheckpointInfo(agent, info, own);
  }

  /** Has the agent, or any of its conversations, changed since its newest checkpoint? */
  async hasChanged(agent: string): Promise<boolean> {
    const line = this.repository(agent);
    const found = await line.load();
    if (!found) throw agentNotFound(agent);
    const { branch } = await line.reader.heads(MAIN);
    if (branch?.record.hidden !== false) return true;
    const { intact, damaged } = await readAgentConversations(this.#context, agent);
    return damaged.length > 0 || !isSameEntries(snapshotsOf(intact), found.state.conversations);
  }

  async load(agent: string, number: number, row: CheckpointRow): Promise<AgentCheckpoint> {
    const line = this.repository(agent);
    const { reader } = line;
    const info = await reader.loadInfo(number, row, agent);
    const stored = await readAgentState(reader, number, row);
    const { state } = await line.migrate(toFound(reader, row, stored));
    const found = toFound(reader, row, state);
    const entered = [...stored.conversations].map(([id, entry]) =>
      toSnapshotInfo(id, decodeSnapshot(entry, agent), this.#context),
    );
    const active = entered.filter(({ archived }) => !archived).map(({ id }) => id);
    const { own } = found.metadata;
    return { ...toAgentCheckpointInfo(agent, info, own), state: toSavedAgent(found, active), conversations: entered };
  }

  /** What a checkpoint has of a conversation; `undefined` if it was not there. */
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

/** What a checkpoint has of these conversations, by id. */
export function snapshotsOf(conversations: readonly StoredConversation[]): Map<string, string> {
  return new Map(conversations.map((conversation) => [conversation.id, encodeSnapshot(conversation)]));
}

function isSameEntries(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([id, entry]) => isSameSnapshot(b.get(id) ?? "", entry));
}

/** The state of a row of an agent's line, as it is stored. */
export async function readAgentState(reader: SessionReader, number: number, row: CheckpointRow): Promise<AgentState> {
  const shadow = await loadShadow(reader, number, row);
  return decodeAgentState(shadow, reader, agentOfHistoryId(reader.sessionId) ?? "");
}

/** An agent as a row has it. */
function toFound(reader: SessionReader, row: CheckpointRow, state: AgentState): StoredAgent {
  const metadata = decodeAgentMetadata(row, reader);
  const info = toSavedAgentInfo(agentOfHistoryId(reader.sessionId) ?? "", row, metadata);
  return { info, metadata, state, row, headId: row.id, version: info.version, skipped: [] };
}

/** A checkpoint of an agent, as callers see it. */
export function toAgentCheckpointInfo(
  agent: string,
  info: CheckpointInfo,
  own: Readonly<Record<string, unknown>>,
): AgentCheckpointInfo {
  return { ...info, sessionId: undefined, agent, metadata: own };
}
