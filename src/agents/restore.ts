/**
 * Going back to a checkpoint of a whole agent: the agent is as it was then, and so are its conversations; newer ones are
 * removed. One commit, which also keeps what was there, as a checkpoint of kind `preOperation`.
 *
 * A message that is appended at the same moment is not in the way: it stands behind the restored ones, as if it had come
 * right after. Only one that comes to a conversation that is to go makes it begin again.
 */
import { isDeepStrictEqual } from "node:util";
import { isSavepointError, SavepointError } from "../errors.js";
import { type Change, diffStates, encodeShadow, newShadow, reviseShadow } from "../state/index.js";
import type { Check, KeyRange, Put } from "../store/index.js";
import { snapshotsOf, readAgentState, toAgentCheckpointInfo } from "./checkpoints.js";
import type { AgentRepository, StoredAgent, AgentMetadata, AgentState } from "./repository.js";
import { decodeAgentMetadata } from "./repository.js";
import type { AgentCheckpointInfo } from "./agent-checkpoint.js";
import {
  type AgentConversations,
  decodeSnapshot,
  encodeSnapshot,
  isSameSnapshot,
  allocateConversationNumber,
  piecesOfSnapshot,
  readAgentConversations,
  readConversations,
  conversationPuts,
  planConversationRemoval,
  type StoredConversation,
  firstTitlePut,
} from "../conversations/index.js";
import {
  conversationKey,
  countPieces,
  encodeMetadata,
  derivedTitleKey,
  lastMessageTimeKey,
  MAIN,
  messageCounterKey,
  partsOfConversation,
  piecesOf,
  type CheckpointRow,
  splitPieces,
} from "../records/index.js";
import {
  buildCommit,
  type Cursors,
  loadShadow,
  buildRow,
  type NumberSource,
  parseSaveOptions,
} from "../sessions/index.js";
import { agentNotFound } from "./saved-agent.js";

/** What going back to a checkpoint changes, or would change. */
export interface RestorePlan {
  readonly agent: string | undefined;
  /** Set where it is a checkpoint of a session. */
  readonly sessionId: string | undefined;
  /** What becomes different about the agent, by JSON pointers into what `sp.agents.load` gives; or about the state. */
  readonly changes: readonly Change[];
  /** Conversations that get other messages, or about which something else is said. */
  readonly restored: readonly RestoredConversation[];
  /** Those that were deleted since, or are damaged, and come back. */
  readonly recreated: readonly string[];
  /** Those that are newer, and go. */
  readonly removed: readonly string[];
}

export interface RestoredConversation {
  readonly id: string;
  readonly messagesBefore: number;
  readonly messagesAfter: number;
}

export interface RestoreResult {
  readonly plan: RestorePlan;
  /** The newest checkpoint now, like the one that was gone back to. */
  readonly checkpoint: AgentCheckpointInfo;
  /** What was there before. */
  readonly before: AgentCheckpointInfo;
}

/** Each time somebody else changed something; more often than that, they always will. */
const MAX_TRIES = 100;
/** As often it is hoped that no message comes meanwhile. After that one may: then what is derived from it is missing. */
const MAX_STRICT_TRIES = 10;

/** A checkpoint to go back to, and what it has. */
interface Target {
  readonly number: number;
  readonly row: CheckpointRow;
  readonly state: AgentState;
}

export class AgentRestorer {
  readonly #line: AgentRepository;
  readonly #cursors: Cursors;
  readonly #numbers: NumberSource;

  constructor(line: AgentRepository, cursors: Cursors, numbers: NumberSource) {
    this.#line = line;
    this.#cursors = cursors;
    this.#numbers = numbers;
  }

  /** What going back would change. */
  async plan(number: number, row: CheckpointRow): Promise<RestorePlan> {
    const target = { number, row, state: await readAgentState(this.#line.reader, number, row) };
    return this.#toPlan(target, await this.#require(), await this.#conversations());
  }

  async restore(number: number, row: CheckpointRow): Promise<RestoreResult> {
    const { reader } = this.#line;
    const target = { number, row, state: await readAgentState(reader, number, row) };
    for (let tries = 1; ; tries++) {
      const found = await this.#require();
      const conversations = await this.#conversations();
      const plan = await this.#toPlan(target, found, conversations);
      try {
        const restored = await this.#commit(target, found, conversations, tries <= MAX_STRICT_TRIES);
        if (restored) return { plan, ...restored };
      } catch (error) {
        if (!isSavepointError(error, "CONFLICT")) throw error;
        await this.#checkOwners(plan.recreated);
      }
      if (!(await reader.row(number, row.seq))) throw removedMeanwhile(row);
      if (tries === MAX_TRIES) throw alwaysChanging(this.#line.id);
    }
  }

  /** `undefined` where the agent was saved since it was read. */
  async #commit(
    target: Target,
    found: StoredAgent,
    conversations: AgentConversations,
    strict: boolean,
  ): Promise<Omit<RestoreResult, "plan"> | undefined> {
    const { reader, id: agent } = this.#line;
    const { context, sessionId } = reader;
    const { registry } = context;
    const cursor = this.#cursors.get(reader, MAIN);
    return cursor.exclusive(async () => {
      const { session, branch } = await cursor.refresh();
      const head = branch?.record.head;
      if (session?.record.number !== target.number || !branch || !head || head.id !== found.headId) return undefined;
      const { number, nextSeq } = session.record;
      const now = context.now();
      const entries = [...keptEntries(found, conversations), ...snapshotsOf(conversations.intact)];
      const state = { ...found.state, conversations: new Map(entries) };
      // What is left of a damaged one is written anew.
      const damaged = head.id !== found.row.id;
      const shadow = damaged
        ? newShadow(state, registry)
        : reviseShadow(await loadShadow(reader, number, head), state, registry);
      const encoded = encodeShadow(shadow, branch.record.tape, branch.record.nextItem);
      const metadata = { agent: { ...found.metadata.agent, version: found.version }, own: {} };
      const options = parseSaveOptions({ kind: "preOperation", trigger: "restore", metadata }, registry);
      const place = { number, seq: nextSeq, branch: branch.record };
      const kept = buildRow(place, encoded, options, context.newId, now, undefined);
      const recovered = this.#recoveredRow(target.row, { number, seq: nextSeq + 1 }, found.version + 1, now);
      const built = buildCommit({
        sessionId,
        sessionBefore: session,
        session: { ...session.record, nextSeq: nextSeq + 2 },
        branchBefore: branch,
        branch: {
          ...branch.record,
          nextItem: branch.record.nextItem + encoded.items.length,
          hidden: false,
          head: recovered,
          headParentId: target.row.id,
        },
        rows: [kept, recovered],
        items: encoded.items,
        blobs: encoded.blobs,
        requiredRows: [target.row.seq],
        extension: await this.#conversationParts(target.state, conversations, strict),
      });
      await context.store.commit(built.commit);
      cursor.adoptCommit(built);
      const keptParent = branch.record.hidden ? branch.record.headParentId : head.id;
      return {
        checkpoint: toAgentCheckpointInfo(agent, reader.toInfo(recovered, agent, target.row.id), {}),
        before: toAgentCheckpointInfo(agent, reader.toInfo(kept, agent, keptParent), {}),
      };
    });
  }

  /** A new row with the state of another, and a version of its own. */
  #recoveredRow(
    row: CheckpointRow,
    place: { number: number; seq: number },
    version: number,
    now: number,
  ): CheckpointRow {
    const { reader } = this.#line;
    const { agent } = decodeAgentMetadata(row, reader);
    const metadata: AgentMetadata = { agent: { ...agent, version }, own: {} };
    return {
      ...row,
      seq: place.seq,
      id: reader.context.newId(place),
      createdAt: now,
      kind: "recovery",
      parent: row.seq,
      grandparent: row.parent,
      label: undefined,
      description: undefined,
      trigger: "restore",
      pinned: false,
      ttl: undefined,
      metadata: encodeMetadata(metadata as unknown as Record<string, unknown>, reader.context.registry),
      storedBytes: Buffer.byteLength(row.skeleton.json) + row.skeleton.refs.length,
    };
  }

  /** What makes the conversations what they were. */
  async #conversationParts(
    target: AgentState,
    { intact, damaged }: AgentConversations,
    strict: boolean,
  ): Promise<{ checks: Check[]; puts: Put[]; deletes: (string | KeyRange)[] }> {
    const parts = { checks: [] as Check[], puts: [] as Put[], deletes: [] as (string | KeyRange)[] };
    const current = new Map(intact.map((conversation) => [conversation.id, conversation]));
    const broken = new Set(damaged.map(({ id }) => id));
    for (const [id, text] of target.conversations) {
      const stored = current.get(id);
      current.delete(id);
      if (stored) parts.checks.push({ key: conversationKey(id), value: stored.value });
      if (stored && isSameSnapshot(encodeSnapshot(stored), text)) continue;
      const { record, lastMessageAt, firstTitle } = decodeSnapshot(text, this.#line.id);
      // One that was deleted has a tape of its own from now on: its old one may go on being freed.
      const number =
        stored?.record.number ??
        (await allocateConversationNumber(this.#line.reader.context, this.#numbers, this.#line.id));
      const order = stored?.record.order ?? record.order;
      const next = { ...record, number, order, ...splitPieces(record.base, number, stored?.items ?? 0) };
      parts.puts.push(
        ...conversationPuts(id, next),
        { key: lastMessageTimeKey(id, number), value: String(lastMessageAt) },
        ...(firstTitle === undefined ? [] : [firstTitlePut(id, number, firstTitle)]),
      );
      if (stored) {
        parts.deletes.push(derivedTitleKey(id, number));
        if (strict) parts.checks.push({ key: messageCounterKey(id, number), value: String(stored.items) });
      } else {
        const key = conversationKey(id);
        parts.checks.push(broken.has(id) ? { key, exists: true } : { key, value: undefined });
        if (broken.has(id)) parts.deletes.push(partsOfConversation(id));
        parts.puts.push({ key: messageCounterKey(id, number), value: "0" });
      }
    }
    for (const { id, record, value, items } of current.values()) {
      const { deletes, puts } = planConversationRemoval(id, record, true);
      parts.checks.push(
        { key: conversationKey(id), value },
        // What it has is in the checkpoint that is kept; nothing may be added to it now.
        { key: messageCounterKey(id, record.number), value: String(items) },
      );
      parts.deletes.push(...deletes);
      parts.puts.push(...puts);
    }
    return parts;
  }

  async #toPlan(target: Target, found: StoredAgent, conversations: AgentConversations): Promise<RestorePlan> {
    const { reader, id: agent } = this.#line;
    const current = new Map<string, StoredConversation>(conversations.intact.map((each) => [each.id, each]));
    const restored: RestoredConversation[] = [];
    const recreated: string[] = [];
    for (const [id, text] of target.state.conversations) {
      const stored = current.get(id);
      current.delete(id);
      if (!stored) recreated.push(id);
      else if (!isSameSnapshot(encodeSnapshot(stored), text)) {
        restored.push({
          id,
          messagesBefore: countPieces(piecesOf(stored.record, stored.items)),
          messagesAfter: countPieces(piecesOfSnapshot(decodeSnapshot(text, agent))),
        });
      }
    }
    const read = reader.stateReader(target.number);
    const states = await diffStates(found.row, target.row, read, reader.context.registry);
    const changes = [
      ...fieldChanges(found.metadata.agent, decodeAgentMetadata(target.row, reader).agent),
      ...states.filter(({ path }) => path !== "/conversations" && !path.startsWith("/conversations/")),
    ];
    return { agent, sessionId: undefined, changes, restored, recreated, removed: [...current.keys()] };
  }

  /** A conversation that was deleted may have been made again, by somebody else. */
  async #checkOwners(ids: readonly string[]): Promise<void> {
    const agent = this.#line.id;
    for (const conversation of await readConversations(this.#line.reader.context, ids)) {
      if (!conversation || "unreadable" in conversation || conversation.record.agent === agent) continue;
      const { id, record } = conversation;
      const owner = record.agent === undefined ? "no agent" : `agent ${JSON.stringify(record.agent)}`;
      throw new SavepointError(
        "CONFLICT",
        `Conversation ${JSON.stringify(id)} of agent ${JSON.stringify(agent)} was deleted, and belongs to ${owner} by now. Delete that one to restore this checkpoint; nothing was changed.`,
        { details: { agent, conversationId: id } },
      );
    }
  }

  #conversations(): Promise<AgentConversations> {
    return readAgentConversations(this.#line.reader.context, this.#line.id);
  }

  async #require(): Promise<StoredAgent> {
    const found = await this.#line.load();
    if (!found) throw agentNotFound(this.#line.id);
    return found;
  }
}

/** What the newest checkpoint has of conversations that cannot be read any more. */
function keptEntries({ state }: StoredAgent, { damaged }: AgentConversations): [id: string, entry: string][] {
  return damaged.flatMap(({ id }) => {
    const entry = state.conversations.get(id);
    return entry === undefined ? [] : [[id, entry] as [string, string]];
  });
}

/** What differs in the fields that listings show. */
function fieldChanges(now: AgentMetadata["agent"], then: AgentMetadata["agent"]): Change[] {
  const changes: Change[] = [];
  for (const key of ["name", "type", "capabilities", "metadata"] as const) {
    const [before, after] = [now[key], then[key]];
    if (!isDeepStrictEqual(before, after)) changes.push({ op: "replace", path: `/${key}`, before, value: after });
  }
  return changes;
}

function removedMeanwhile(row: CheckpointRow): SavepointError {
  return new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed meanwhile.`);
}

function alwaysChanging(agent: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Agent ${JSON.stringify(agent)} could not be restored: it, or a conversation that would go, changed each of ${MAX_TRIES} times. Stop what writes to it and try again; nothing was changed.`,
  );
}
