/** Checkpoints of whole agents: taking them, reading them, going back to them. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Change } from "../state/change.js";
import { diffStates } from "../state/diff.js";
import { shadowToValue } from "../state/value.js";
import type { Check, KeyRange, Put } from "../store/store.js";
import { AgentLine, type FoundAgent, type LineState, toAgentInfo, toLineMetadata } from "./agent-line.js";
import { toAgent } from "./agents.js";
import type { AgentCheckpoint, AgentCheckpointInfo, CheckpointInfo, CheckpointKind } from "./checkpoint.js";
import type { Context } from "./context.js";
import {
  decodeEntry,
  encodeEntry,
  type EnteredConversation,
  piecesOfEntry,
  readAgentConversations,
  toEnteredInfo,
} from "./conversation-entry.js";
import type { StoredConversation } from "./conversation-reader.js";
import { countPieces, piecesOf, splitPieces } from "./conversation-records.js";
import { recordPuts, removal, titlePut } from "./conversation-writer.js";
import type { Cursors } from "./cursors.js";
import {
  agentLine,
  agentOfLine,
  conversationKey,
  conversationNumberKey,
  firstTitleKey,
  lastMessageKey,
  messageCounterKey,
} from "./keys.js";
import { loadShadow } from "./load-state.js";
import { migrateIfDeclared, type Migrations } from "./migrations.js";
import type { NumberSource } from "./numbers.js";
import { encodeMetadata, MAIN, type Row } from "./records.js";
import { agentNotFound } from "./saved-agent.js";
import { buildCommit } from "./session-commit.js";
import { describeSession } from "./session-errors.js";
import { SessionReader } from "./session-reader.js";

/** What can be said about a checkpoint of an agent. */
export interface CreateCheckpointOptions {
  readonly agent: string;
  readonly label?: string;
  readonly description?: string;
  /** @default "manual" */
  readonly kind?: CheckpointKind;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Pinned ones are never pruned. @default false */
  readonly pinned?: boolean;
  readonly trigger?: string;
}

/** What going back to a checkpoint changes, or would change. */
export interface RestorePlan {
  readonly agent: string | undefined;
  /** Set where it is a checkpoint of a session. */
  readonly sessionId: string | undefined;
  /** What becomes different about the agent, by JSON pointers into what `sp.agents.load` gives; or about the state. */
  readonly changes: readonly Change[];
  /** Conversations that get other messages, or about which something else is said. */
  readonly restored: readonly ConversationChange[];
  /** Those that were deleted since, and come back. */
  readonly recreated: readonly string[];
  /** Those that are newer, and go. */
  readonly removed: readonly string[];
}

export interface ConversationChange {
  readonly id: string;
  readonly messagesBefore: number;
  readonly messagesAfter: number;
}

/** An agent and its conversations as they are, to be kept or to be given up. */
interface Snapshot {
  readonly conversations: readonly StoredConversation[];
  readonly entries: Readonly<Record<string, string>>;
}

export class AgentCheckpoints {
  readonly #context: Context;
  readonly #cursors: Cursors;
  readonly #numbers: NumberSource;
  readonly #migrations: Migrations;

  constructor(context: Context, cursors: Cursors, numbers: NumberSource, migrations: Migrations) {
    this.#context = context;
    this.#cursors = cursors;
    this.#numbers = numbers;
    this.#migrations = migrations;
  }

  reader(agent: string): SessionReader {
    return new SessionReader(this.#context, agentLine(agent));
  }

  /** Takes a checkpoint of an agent and its conversations as they are at one moment. */
  async create(options: CreateCheckpointOptions): Promise<AgentCheckpointInfo> {
    const { agent, metadata: own = {}, ...saveOptions } = options;
    encodeMetadata(own, this.#context.registry);
    const info = await this.#line(agent).save(async (found) => {
      if (!found) throw agentNotFound(agent);
      const { conversations, entries } = await this.#snapshot(agent, found);
      return {
        state: (before) => ({ ...(before as LineState), state: found.state.state, conversations: entries }),
        metadata: { agent: this.#fieldsOf(found), own },
        options: saveOptions,
        shown: true,
        // Whatever cuts messages off changes the record: those that it names must not be freed before it is there.
        more: { checks: conversations.map(({ id, value }) => ({ key: conversationKey(id), value })) },
      };
    });
    return toAgentCheckpointInfo(agent, info, own);
  }

  /** Has the agent, or any of its conversations, changed since its newest checkpoint? */
  async hasChanged(agent: string): Promise<boolean> {
    const found = await this.#line(agent).load();
    if (!found) throw agentNotFound(agent);
    const { branch } = await this.reader(agent).heads(MAIN);
    if (branch?.record.hidden !== false) return true;
    const { entries } = await this.#snapshot(agent, found);
    const [now, then] = [Object.keys(entries), Object.keys(found.state.conversations)];
    return now.length !== then.length || now.some((id) => entries[id] !== found.state.conversations[id]);
  }

  async load(agent: string, number: number, row: Row): Promise<AgentCheckpoint> {
    const reader = this.reader(agent);
    const [info, state] = [await reader.describe(number, row, agent), await this.#stateOf(reader, number, row)];
    const metadata = toLineMetadata(row, reader);
    const found = { info: toAgentInfo(agent, row, metadata), metadata, state, row, version: 0, skipped: [] };
    const entered = Object.entries(state.conversations).map(([id, entry]) =>
      toEnteredInfo(id, decodeEntry(entry, agent), this.#context),
    );
    const active = entered.filter(({ archived }) => !archived).map(({ id }) => id);
    return {
      ...toAgentCheckpointInfo(agent, info, metadata.own),
      state: toAgent(found, active),
      conversations: entered,
    };
  }

  /** Where the messages of a conversation were; `undefined` if it was not there. */
  async entry(agent: string, number: number, row: Row, id: string): Promise<EnteredConversation | undefined> {
    const { conversations } = await this.#stateOf(this.reader(agent), number, row);
    return Object.hasOwn(conversations, id) ? decodeEntry(conversations[id] as string, agent) : undefined;
  }

  /** What going back would change. */
  async plan(agent: string, number: number, row: Row): Promise<RestorePlan> {
    const found = await this.#require(agent);
    const target = await this.#stateOf(this.reader(agent), number, row);
    const { conversations } = await this.#snapshot(agent, found);
    return this.#toPlan(agent, found, row, target, conversations, number);
  }

  /**
   * Goes back to a checkpoint, in one transaction: the agent is as it was then, and so are its conversations; newer ones
   * are removed. What was there is kept first, as a checkpoint of kind `preOperation`.
   */
  async restore(
    agent: string,
    number: number,
    row: Row,
  ): Promise<{ plan: RestorePlan; before: AgentCheckpointInfo; checkpoint: AgentCheckpointInfo; stale: string[] }> {
    const stale: string[] = [];
    const target = await this.#stateOf(this.reader(agent), number, row);
    for (;;) {
      const before = await this.create({ agent, kind: "preOperation", trigger: "restore" });
      try {
        const restored = await this.#commitRestore(agent, number, row, target, before);
        if (restored) return { ...restored, before, stale };
      } catch (error) {
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
      // A message has come, or the agent was saved, since what was there was kept: that has to be kept as well.
      stale.push(before.id);
      if (!(await this.reader(agent).row(number, row.seq))) throw removedMeanwhile(row);
    }
  }

  /** `undefined` where something is not as it was kept. */
  async #commitRestore(
    agent: string,
    number: number,
    row: Row,
    target: LineState,
    before: AgentCheckpointInfo,
  ): Promise<{ plan: RestorePlan; checkpoint: AgentCheckpointInfo } | undefined> {
    const reader = this.reader(agent);
    const found = await this.#require(agent);
    const { conversations, entries } = await this.#snapshot(agent, found);
    const kept = Object.entries(found.state.conversations);
    const same = kept.length === conversations.length && kept.every(([id, entry]) => entries[id] === entry);
    if (found.row.id !== before.id || !same) return undefined;
    const plan = await this.#toPlan(agent, found, row, target, conversations, number);

    const cursor = this.#cursors.get(reader, MAIN);
    return cursor.exclusive(async () => {
      const { session, branch } = await cursor.refresh();
      if (session?.record.number !== number || branch?.record.head?.id !== before.id) return undefined;
      const parts = await this.#conversationParts(agent, target, conversations);
      const recovered = this.#recoveredRow(reader, number, row, session.record.nextSeq, found);
      const built = buildCommit({
        sessionId: reader.sessionId,
        sessionBefore: session,
        session: { ...session.record, nextSeq: session.record.nextSeq + 1 },
        branchBefore: branch,
        branch: { ...branch.record, hidden: false, head: recovered, headParentId: row.id },
        rows: [recovered],
        builtOn: [row.seq],
        more: parts,
      });
      await this.#context.store.commit(built.commit);
      cursor.committed(built);
      const info = reader.toInfo(recovered, agent, row.id);
      return { plan, checkpoint: toAgentCheckpointInfo(agent, info, {}) };
    });
  }

  /** A new row with the state of another, and a version of its own. */
  #recoveredRow(reader: SessionReader, number: number, row: Row, seq: number, found: FoundAgent): Row {
    const { agent } = toLineMetadata(row, reader);
    const metadata = { agent: { ...agent, version: found.version + 1 }, own: {} };
    return {
      ...row,
      seq,
      id: this.#context.newId({ number, seq }),
      createdAt: this.#context.now(),
      kind: "recovery",
      parent: row.seq,
      grandparent: row.parent,
      label: undefined,
      description: undefined,
      trigger: "restore",
      pinned: false,
      metadata: encodeMetadata(metadata, this.#context.registry),
      storedBytes: Buffer.byteLength(row.skeleton.json) + row.skeleton.refs.length,
    };
  }

  /** What makes the conversations what they were. */
  async #conversationParts(
    agent: string,
    target: LineState,
    conversations: readonly StoredConversation[],
  ): Promise<{ checks: Check[]; puts: Put[]; deletes: (string | KeyRange)[] }> {
    const parts = { checks: [] as Check[], puts: [] as Put[], deletes: [] as (string | KeyRange)[] };
    const current = new Map(conversations.map((conversation) => [conversation.id, conversation]));
    for (const [id, text] of Object.entries(target.conversations)) {
      const stored = current.get(id);
      current.delete(id);
      if (stored) parts.checks.push(...checksOf(stored));
      if (stored && encodeEntry(stored) === text) continue;
      const { record, lastMessageAt, firstTitle } = decodeEntry(text, agent);
      // One that was deleted has a tape of its own from now on: its old one may go on being freed.
      const number = stored?.record.number ?? (await this.#numbers.next());
      const items = stored?.items ?? 0;
      const next = { ...record, number, ...splitPieces(record.base, number, items) };
      parts.puts.push(
        ...recordPuts(id, next),
        { key: lastMessageKey(id, number), value: String(lastMessageAt) },
        ...(firstTitle === undefined ? [] : [titlePut(id, number, firstTitle)]),
      );
      if (stored) parts.deletes.push(firstTitleKey(id, number));
      else {
        parts.checks.push({ key: conversationKey(id), value: undefined });
        parts.puts.push(
          { key: messageCounterKey(id, number), value: "0" },
          { key: conversationNumberKey(number), value: id },
        );
      }
    }
    for (const stored of current.values()) {
      const { deletes, puts } = removal(stored.id, stored.record, true);
      parts.checks.push(...checksOf(stored));
      parts.deletes.push(...deletes);
      parts.puts.push(...puts);
    }
    return parts;
  }

  async #toPlan(
    agent: string,
    found: FoundAgent,
    row: Row,
    target: LineState,
    conversations: readonly StoredConversation[],
    number: number,
  ): Promise<RestorePlan> {
    const reader = this.reader(agent);
    const current = new Map(conversations.map((conversation) => [conversation.id, conversation]));
    const restored: ConversationChange[] = [];
    const recreated: string[] = [];
    for (const [id, text] of Object.entries(target.conversations)) {
      const stored = current.get(id);
      current.delete(id);
      if (!stored) recreated.push(id);
      else if (encodeEntry(stored) !== text) {
        restored.push({
          id,
          messagesBefore: countPieces(piecesOf(stored.record, stored.items)),
          messagesAfter: countPieces(piecesOfEntry(decodeEntry(text, agent))),
        });
      }
    }
    const states = await diffStates(found.row, row, reader.stateReader(number), this.#context.registry);
    const changes = [
      ...fieldChanges(found.metadata.agent, toLineMetadata(row, reader).agent),
      ...states.filter(({ path }) => path !== "/conversations" && !path.startsWith("/conversations/")),
    ];
    return { agent, sessionId: undefined, changes, restored, recreated, removed: [...current.keys()] };
  }

  async #snapshot(agent: string, found: FoundAgent): Promise<Snapshot> {
    const conversations = await readAgentConversations(this.#context, agent);
    const before = found.state.conversations;
    const entries = Object.fromEntries(
      conversations.map((conversation) => {
        const { id } = conversation;
        const entry = encodeEntry(conversation);
        // The very text that is there already is found to be the same at once.
        return [id, Object.hasOwn(before, id) && before[id] === entry ? (before[id] as string) : entry];
      }),
    );
    return { conversations, entries };
  }

  async #stateOf(reader: SessionReader, number: number, row: Row): Promise<LineState> {
    const shadow = await loadShadow(reader, number, row);
    const stored = shadowToValue(shadow, this.#context.registry) as LineState;
    const agent = agentOfLine(reader.sessionId) ?? "";
    const { schema } = toLineMetadata(row, reader).agent;
    const { agent: migrations } = this.#migrations.of(agent);
    const state = await migrateIfDeclared(describeSession(reader.sessionId), migrations, schema, stored.state);
    return { ...stored, state };
  }

  #fieldsOf(found: FoundAgent): FoundAgent["metadata"]["agent"] {
    const { agent } = found.metadata;
    return { ...agent, schema: this.#line(found.info.id).schemaAfter(agent.schema) };
  }

  async #require(agent: string): Promise<FoundAgent> {
    const found = await this.#line(agent).load();
    if (!found) throw agentNotFound(agent);
    return found;
  }

  #line(agent: string): AgentLine {
    return new AgentLine(this.#context, this.#cursors, agent, this.#migrations.of(agent));
  }
}

/** A checkpoint of an agent, as callers see it. */
export function toAgentCheckpointInfo(
  agent: string,
  info: CheckpointInfo,
  own: Readonly<Record<string, unknown>>,
): AgentCheckpointInfo {
  return { ...info, sessionId: undefined, agent, metadata: own };
}

function checksOf({ id, record, value, items }: StoredConversation): Check[] {
  return [
    { key: conversationKey(id), value },
    { key: messageCounterKey(id, record.number), value: String(items) },
  ];
}

/** What differs in the fields that listings show. */
function fieldChanges(now: FoundAgent["metadata"]["agent"], then: FoundAgent["metadata"]["agent"]): Change[] {
  const changes: Change[] = [];
  for (const key of ["name", "type", "capabilities", "metadata"] as const) {
    const [before, after] = [now[key], then[key]];
    if (JSON.stringify(before) !== JSON.stringify(after)) {
      changes.push({ op: "replace", path: `/${key}`, before, value: after });
    }
  }
  return changes;
}

function removedMeanwhile(row: Row): SavepointError {
  return new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed meanwhile.`);
}
