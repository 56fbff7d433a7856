/**
 * Restores a checkpoint of an agent: the agent and its conversations return to their content at the checkpoint, and newer
 * conversations are removed. It is one commit, which also saves the current state as a checkpoint of kind `preOperation`.
 *
 * A message that is appended at the same time comes after the restored ones, as if it had been appended after the restore.
 * Only a message to a conversation that is to be removed makes the restore start again.
 */
import { isDeepStrictEqual } from "node:util";
import { isSavepointError, SavepointError } from "../errors.js";
import { type Change, diffStates, encodeShadow, newShadow, reviseShadow } from "../state/index.js";
import type { Check, KeyRange, Put } from "../store/index.js";
import { type AgentCheckpointInfo, toAgentCheckpointInfo } from "./checkpoints.js";
import type { AgentRepository, StoredAgent, AgentMetadata, AgentState } from "./repository.js";
import { decodeAgentMetadata, withoutStamp } from "./repository.js";
import { readAgentState, snapshotsOf } from "./snapshots.js";
import {
  type DamagedConversation,
  isIntactConversation,
  decodeSnapshot,
  encodeSnapshot,
  isSameSnapshot,
  allocateConversationNumber,
  piecesOfSnapshot,
  readAllConversations,
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
  messageCounterKey,
  partsOfConversation,
  piecesOf,
  type CheckpointRow,
  splitPieces,
} from "../records/index.js";
import {
  buildCommit,
  type CommitParts,
  copyRow,
  loadShadow,
  buildRow,
  type NumberSource,
  parseSaveOptions,
} from "../sessions/index.js";

/** What restoring a checkpoint changes, or would change. */
export interface RestorePlan {
  readonly agent: string | undefined;
  /** Set if it is a checkpoint of a session. */
  readonly sessionId: string | undefined;
  /** Changes of the agent, by JSON pointers into the result of `sp.agents.load`; or of the state of the session. */
  readonly changes: readonly Change[];
  /** Conversations whose messages or fields change. */
  readonly restored: readonly RestoredConversation[];
  /** Conversations that were deleted since, or are damaged, and are created again. */
  readonly recreated: readonly string[];
  /** Conversations that are newer than the checkpoint, and are removed. */
  readonly removed: readonly string[];
  /** The ids of conversations that were erased from the checkpoint and cannot be restored. */
  readonly erased: readonly string[];
}

/** How many messages a conversation has before and after a restore. */
export interface RestoredConversation {
  readonly id: string;
  readonly messagesBefore: number;
  readonly messagesAfter: number;
}

/** A restore that was committed. */
export interface RestoreResult {
  readonly plan: RestorePlan;
  /** The new checkpoint, with the contents of the restored one. */
  readonly checkpoint: AgentCheckpointInfo;
  /** The checkpoint of the state before the restore. */
  readonly before: AgentCheckpointInfo;
}

/** Attempts while other processes change the agent or its conversations. */
const MAX_ATTEMPTS = 100;
/**
 * Attempts that fail if a message is appended meanwhile. Later ones accept it; then the title and time derived from it
 * are lost.
 */
const MAX_STRICT_ATTEMPTS = 10;

/** The checkpoint to restore. */
interface Target {
  readonly number: number;
  readonly row: CheckpointRow;
  readonly state: AgentState;
}

/** Restores checkpoints of one agent. */
export class AgentRestorer {
  readonly #repository: AgentRepository;
  readonly #numbers: NumberSource;

  constructor(repository: AgentRepository, numbers: NumberSource) {
    this.#repository = repository;
    this.#numbers = numbers;
  }

  /** What restoring a checkpoint would change. */
  async plan(number: number, row: CheckpointRow): Promise<RestorePlan> {
    const target = { number, row, state: await readAgentState(this.#repository.reader, number, row) };
    return this.#planChanges(target, await this.#repository.require(), await this.#conversations());
  }

  /**
   * Restores a checkpoint.
   *
   * @throws BUSY if the agent or its conversations change all the time
   */
  async restore(number: number, row: CheckpointRow): Promise<RestoreResult> {
    const { reader } = this.#repository;
    const target = { number, row, state: await readAgentState(reader, number, row) };
    for (let attempt = 1; ; attempt++) {
      const found = await this.#repository.require();
      const conversations = await this.#conversations();
      const plan = await this.#planChanges(target, found, conversations);
      try {
        const restored = await this.#commit(target, found, conversations, attempt <= MAX_STRICT_ATTEMPTS);
        if (restored) return { plan, ...restored };
      } catch (error) {
        if (!isSavepointError(error, "CONFLICT")) throw error;
        await this.#checkOwners(plan.recreated);
      }
      if (!(await reader.row(number, row.seq))) throw checkpointRemoved(row);
      if (attempt === MAX_ATTEMPTS) throw agentBusy(this.#repository.id);
    }
  }

  /** Commits a restore; `undefined` if the agent was saved since it was read. */
  async #commit(
    target: Target,
    found: StoredAgent,
    conversations: AgentConversations,
    strict: boolean,
  ): Promise<Omit<RestoreResult, "plan"> | undefined> {
    const { reader, cursor, id: agent } = this.#repository;
    const { context, sessionId } = reader;
    const { registry } = context;
    return cursor.exclusive(async () => {
      const { session, branch } = await cursor.refresh();
      const head = branch?.record.head;
      if (session?.record.number !== target.number || !branch || !head || head.id !== found.headId) return undefined;
      const { number, nextSeq } = session.record;
      const now = context.now();
      const entries = [...snapshotsOfDamaged(found, conversations), ...snapshotsOf(conversations.intact)];
      const state = { ...found.state, conversations: new Map(entries) };
      // The rest of a damaged state cannot be revised: it is written completely.
      const damaged = head.id !== found.row.id;
      const shadow = damaged
        ? newShadow(state, registry)
        : reviseShadow(await loadShadow(reader, number, head), state, registry);
      const encoded = encodeShadow(shadow, branch.record.tape, branch.record.nextItem);
      const metadata = { agent: { ...withoutStamp(found.metadata), version: found.version }, own: {} };
      const options = parseSaveOptions({ kind: "preOperation", trigger: "restore", metadata }, registry);
      const place = { number, seq: nextSeq, branch: branch.record };
      const before = buildRow(place, encoded, options, context.newId, now, undefined);
      const seq = nextSeq + 1;
      const as = {
        seq,
        id: context.newId({ number, seq }),
        kind: "recovery",
        createdAt: now,
        trigger: "restore",
      } as const;
      const restored = { ...withoutStamp(decodeAgentMetadata(target.row, reader)), version: found.version + 1 };
      const recovered: CheckpointRow = {
        ...copyRow(target.row, branch.record, as),
        metadata: encodeMetadata({ agent: restored, own: {} }, registry),
      };
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
        rows: [before, recovered],
        items: encoded.items,
        blobs: encoded.blobs,
        requiredRows: [target.row.seq],
        extension: await this.#conversationParts(target.state, conversations, strict),
      });
      await context.store.commit(built.commit);
      cursor.adoptCommit(built);
      const beforeParent = branch.record.hidden ? branch.record.headParentId : head.id;
      return {
        checkpoint: toAgentCheckpointInfo(agent, reader.toInfo(recovered, agent, target.row.id), {}),
        before: toAgentCheckpointInfo(agent, reader.toInfo(before, agent, beforeParent), {}),
      };
    });
  }

  /**
   * The parts of the commit that restore the conversations.
   *
   * @param strict fail if a message is appended meanwhile
   */
  async #conversationParts(
    target: AgentState,
    { intact, damaged }: AgentConversations,
    strict: boolean,
  ): Promise<CommitParts> {
    const parts = { checks: [] as Check[], puts: [] as Put[], deletes: [] as (string | KeyRange)[] };
    const broken = new Set(damaged.map(({ id }) => id));
    for (const { id, snapshot, stored, isSame } of compareConversations(target, intact)) {
      if (stored) parts.checks.push({ key: conversationKey(id), value: stored.value });
      if (isSame) continue;
      const { record, lastMessageAt, firstTitle } = decodeSnapshot(snapshot, this.#repository.id);
      // A conversation that was deleted gets a new tape: the old one may be in the course of being freed.
      const number =
        stored?.record.number ??
        (await allocateConversationNumber(this.#repository.reader.context, this.#numbers, this.#repository.id));
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
    for (const { id, record, value, items } of newerConversations(target, intact)) {
      const { deletes, puts } = planConversationRemoval(id, record, true);
      parts.checks.push(
        { key: conversationKey(id), value },
        // Its messages are in the checkpoint before the restore. A message that is appended now would be lost.
        { key: messageCounterKey(id, record.number), value: String(items) },
      );
      parts.deletes.push(...deletes);
      parts.puts.push(...puts);
    }
    return parts;
  }

  async #planChanges(target: Target, found: StoredAgent, { intact }: AgentConversations): Promise<RestorePlan> {
    const { reader, id: agent } = this.#repository;
    const compared = compareConversations(target.state, intact);
    const restored = compared.flatMap(({ id, snapshot, stored, isSame }) => {
      if (!stored || isSame) return [];
      const messagesBefore = countPieces(piecesOf(stored.record, stored.items));
      return [{ id, messagesBefore, messagesAfter: countPieces(piecesOfSnapshot(decodeSnapshot(snapshot, agent))) }];
    });
    const recreated = compared.filter(({ stored }) => !stored).map(({ id }) => id);
    const removed = newerConversations(target.state, intact).map(({ id }) => id);
    const read = reader.stateReader(target.number);
    const states = await diffStates(found.row, target.row, read, reader.context.registry);
    const then = decodeAgentMetadata(target.row, reader);
    const changes = [
      ...fieldChanges(found.metadata.agent, then.agent),
      ...states.filter(({ path }) => path !== "/conversations" && !path.startsWith("/conversations/")),
    ];
    return { agent, sessionId: undefined, changes, restored, recreated, removed, erased: then.erased ?? [] };
  }

  /** Rejects a restore if the id of a deleted conversation is used by another agent now. */
  async #checkOwners(ids: readonly string[]): Promise<void> {
    const agent = this.#repository.id;
    for (const conversation of await readConversations(this.#repository.reader.context, ids)) {
      if (!conversation || "unreadable" in conversation || conversation.record.agent === agent) continue;
      const { id, record } = conversation;
      const owner = record.agent === undefined ? "no agent" : `agent ${JSON.stringify(record.agent)}`;
      throw new SavepointError(
        "CONFLICT",
        `Conversation ${JSON.stringify(id)} of agent ${JSON.stringify(agent)} was deleted, and its id belongs to ${owner} now. Nothing was changed. Delete that conversation to restore this checkpoint.`,
        { details: { agent, conversationId: id } },
      );
    }
  }

  async #conversations(): Promise<AgentConversations> {
    const { found } = await readAllConversations(this.#repository.reader.context, this.#repository.id);
    const all = [...found.values()];
    return {
      intact: all.filter(isIntactConversation),
      damaged: all.filter((each) => each !== undefined && "unreadable" in each),
    };
  }
}

/** The conversations of an agent at one moment. */
interface AgentConversations {
  readonly intact: readonly StoredConversation[];
  readonly damaged: readonly DamagedConversation[];
}

/** A conversation in a checkpoint, and as it is now; `undefined` if it was deleted since, or is damaged. */
interface ComparedConversation {
  readonly id: string;
  readonly snapshot: string;
  readonly stored: StoredConversation | undefined;
  readonly isSame: boolean;
}

/** Compares the conversations in a checkpoint with the current ones. */
function compareConversations(then: AgentState, now: readonly StoredConversation[]): ComparedConversation[] {
  const current = new Map(now.map((each) => [each.id, each]));
  return [...then.conversations].map(([id, snapshot]) => {
    const stored = current.get(id);
    return { id, snapshot, stored, isSame: stored !== undefined && isSameSnapshot(encodeSnapshot(stored), snapshot) };
  });
}

/** The conversations that are newer than a checkpoint. */
function newerConversations(then: AgentState, now: readonly StoredConversation[]): StoredConversation[] {
  return now.filter(({ id }) => !then.conversations.has(id));
}

/** The snapshots in the newest checkpoint of conversations that are damaged now. */
function snapshotsOfDamaged({ state }: StoredAgent, { damaged }: AgentConversations): [id: string, entry: string][] {
  return damaged.flatMap(({ id }) => {
    const entry = state.conversations.get(id);
    return entry === undefined ? [] : [[id, entry] as [string, string]];
  });
}

/** The changes of the fields that listings show. */
function fieldChanges(now: AgentMetadata["agent"], then: AgentMetadata["agent"]): Change[] {
  const changes: Change[] = [];
  for (const key of ["name", "type", "capabilities", "metadata"] as const) {
    const [before, after] = [now[key], then[key]];
    if (!isDeepStrictEqual(before, after)) changes.push({ op: "replace", path: `/${key}`, before, value: after });
  }
  return changes;
}

function checkpointRemoved(row: CheckpointRow): SavepointError {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `Checkpoint ${row.id} was removed while it was being restored. Nothing was changed.`,
  );
}

function agentBusy(agent: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Agent ${JSON.stringify(agent)} could not be restored: it, or a conversation to be removed, changed during each of ${MAX_ATTEMPTS} attempts. Nothing was changed. Stop the processes that write to it and try again.`,
  );
}
