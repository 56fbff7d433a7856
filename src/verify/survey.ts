/**
 * Surveys a store for damage. The store may be written meanwhile: data that seems to be missing because it was just freed is
 * checked a second time before it is reported.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { findUnmarkedConversations } from "../agents/index.js";
import type { Context } from "../context.js";
import { isSavepointError } from "../errors.js";
import { decodeConversationListing, readConversations } from "../conversations/index.js";
import { findLiveMessages, listAgentsWithConversations } from "../gc/index.js";
import {
  agentConversationKey,
  agentHistoryId,
  agentOfHistoryId,
  ALL_CONVERSATION_NUMBERS,
  ALL_CONVERSATIONS,
  ALL_SESSION_NUMBERS,
  ALL_SESSIONS,
  annotationCounterKey,
  annotationsOf,
  branchesOf,
  changedConversationKey,
  conversationKey,
  conversationNumberKey,
  conversationsOf,
  decodeConversation,
  decodeNumbers,
  decodeSession,
  labelsOf,
  messageCounterKey,
  messageTape,
  NEXT_NUMBER_KEY,
  notesOf,
  queueEntriesOf,
  rowsOf,
  runsOf,
  sessionKey,
  sessionNumberKey,
  sessionsOfAgent,
} from "../records/index.js";
import { SessionReader } from "../sessions/index.js";
import { type KeyRange, scan, type Store } from "../store/index.js";
import { readAhead } from "../util/index.js";
import { damagedRecord, type Finding, findingKey, missingRecord, ownerOfSession } from "./findings.js";
import { surveySession } from "./session-survey.js";
import type { SurveyCounts, SurveyOptions } from "./survey-options.js";
import { findUnreadableItems } from "./unreadable-items.js";

/** No key sorts after the end of this range. */
const ALL_RECORDS: KeyRange = { from: "", to: "\u{10ffff}" };
/** Records between two turns of the event loop. */
const RECORDS_PER_TURN = 256;
/** Sessions that are surveyed concurrently: while the store answers for one, another is checked. */
const CONCURRENT_SESSIONS = 4;

/** Yields all damage in the scope of the options. */
export async function* survey(context: Context, options: SurveyOptions): AsyncGenerator<Finding> {
  const { session, agent } = options;
  const isWholeStore = session === undefined && agent === undefined;
  if (isWholeStore) {
    for (const { place, reason, record } of (await context.store.check?.()) ?? []) {
      if (record === undefined) yield { kind: "store", checkpoints: [], place, reason };
      else yield damagedRecord(record, reason);
    }
    yield* surveyRecords(context, ALL_RECORDS, options.counts);
    yield* surveyCounter(context);
  }
  const blobs = new Set<string>();
  const surveyed = readAhead(listSessions(context, options), CONCURRENT_SESSIONS, async ({ reader, number }) => {
    const findings: Finding[] = [];
    for (const range of isWholeStore ? [] : rangesOf(reader.sessionId, number)) {
      for await (const finding of surveyRecords(context, range, options.counts)) findings.push(finding);
    }
    for await (const finding of confirm(() => surveySession(reader, number, options, blobs))) findings.push(finding);
    return { reader, findings };
  });
  for await (const { reader, findings } of surveyed) {
    yield* findings;
    // The history of an agent is stored like a session, but is none.
    if (agentOfHistoryId(reader.sessionId) === undefined) options.counts.sessions++;
    options.onProgress();
    await nextTurn();
  }
  if (isWholeStore) yield* surveyConversationLists(context);
  const agents =
    session !== undefined ? [] : agent !== undefined ? [agent] : await listAgentsWithConversations(context);
  for (const each of agents) yield* confirm(() => surveyConversations(context, each, options, blobs));
  if (options.deep) yield* surveyBlobs(context, blobs, options);
}

/** Records that cannot be read. */
async function* surveyRecords({ store }: Context, range: KeyRange, counts: SurveyCounts): AsyncGenerator<Finding> {
  for await (const record of scan(store, range)) {
    counts.records++;
    if ("unreadable" in record)
      yield { ...damagedRecord(record.key, record.unreadable), ...(await ownerOfRow(store, record.key)) };
    if (counts.records % RECORDS_PER_TURN === 0) await nextTurn();
  }
}

/** The owner of a checkpoint, note, label or annotation, whose keys contain only the number of the session. */
async function ownerOfRow(store: Store, key: string): Promise<Pick<Finding, "sessionId" | "agent">> {
  if (!/^[zalw]/.test(key)) return {};
  const [listed] = await store.get([sessionNumberKey(decodeNumbers(key.slice(1), 1).numbers[0] as number)]);
  return listed && "value" in listed ? ownerOfSession(listed.value) : {};
}

/** Without the counter, new sessions would get numbers that are in use. */
async function* surveyCounter({ store }: Context): AsyncGenerator<Finding> {
  for (const range of [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS]) {
    const [last] = await store.list(range, { limit: 1, reverse: true });
    if (!last) continue;
    // The counter is read after the highest number: a session may be created meanwhile, and the counter must include its number.
    const [counter] = await store.get([NEXT_NUMBER_KEY]);
    const highest = decodeNumbers(last.key.slice(1), 1).numbers[0] as number;
    if (!counter) yield missingRecord(NEXT_NUMBER_KEY);
    else if ("value" in counter && Number(counter.value) <= highest) {
      yield damagedRecord(NEXT_NUMBER_KEY, `it is ${counter.value}, but number ${highest} is in use`);
    } else continue;
    return;
  }
}

/** The records of a session. */
function rangesOf(sessionId: string, number: number): KeyRange[] {
  const own = sessionKey(sessionId);
  return [
    { from: own, to: `${own}\u0001` },
    branchesOf(sessionId),
    rowsOf(number),
    notesOf(number),
    { from: annotationCounterKey(number), to: annotationsOf(number).to },
    labelsOf(number),
    runsOf(sessionId),
    queueEntriesOf(sessionId),
  ];
}

/** A session, or the history of an agent, and its number. */
interface NumberedSession {
  readonly reader: SessionReader;
  readonly number: number;
}

async function* listSessions(context: Context, { session, agent }: SurveyOptions): AsyncGenerator<NumberedSession> {
  if (session !== undefined) yield* findSession(context, session);
  else if (agent !== undefined) {
    yield* findSession(context, agentHistoryId(agent));
    for await (const record of scan(context.store, sessionsOfAgent(agent))) {
      if ("value" in record) yield* findSession(context, record.value);
    }
  } else {
    // From the list and from their own records: either may be lost.
    const listed = new Set<string>();
    for await (const record of scan(context.store, ALL_SESSION_NUMBERS)) {
      const number = decodeNumbers(record.key.slice(1), 1).numbers[0] as number;
      if (!("value" in record)) continue;
      yield { reader: new SessionReader(context, record.value), number };
      listed.add(record.value);
    }
    for await (const record of scan(context.store, ALL_SESSIONS)) {
      const [, id = "", branch] = record.key.split("\t");
      if (branch !== undefined || listed.has(id) || !("value" in record)) continue;
      yield { reader: new SessionReader(context, id), number: decodeSession(record.value).number };
    }
  }
}

async function* findSession(context: Context, id: string): AsyncGenerator<NumberedSession> {
  const reader = new SessionReader(context, id);
  const number = await reader.findNumber();
  if (number !== undefined) yield { reader, number };
}

/** Every conversation has a counter, and is in the list of all conversations and in that of its agent. */
async function* surveyConversationLists({ store }: Context): AsyncGenerator<Finding> {
  for await (const record of scan(store, ALL_CONVERSATIONS)) {
    const [, conversationId = "", part] = record.key.split("\t");
    if (part !== undefined || !("value" in record)) continue;
    const { order, agent, number } = decodeConversation(record.value);
    const keys = [
      conversationNumberKey(order),
      agentConversationKey(agent, order),
      messageCounterKey(conversationId, number),
    ];
    for (const [index, found] of (await store.get(keys)).entries()) {
      if (!found) yield { ...missingRecord(keys[index] as string), conversationId };
    }
  }
}

/** The listed conversations of an agent exist; with `deep`, all their messages can be read. */
async function* surveyConversations(
  context: Context,
  agent: string,
  options: SurveyOptions,
  blobs: Set<string>,
): AsyncGenerator<Finding> {
  const ids: string[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    if ("value" in record) ids.push(decodeConversationListing(record.value).id);
  }
  options.counts.conversations += ids.length;
  const idByNumber = new Map<number, string>();
  for (const [index, found] of (await readConversations(context, ids)).entries()) {
    const conversationId = ids[index] as string;
    if (!found) yield { ...missingRecord(conversationKey(conversationId)), conversationId };
    else if (!("unreadable" in found)) idByNumber.set(found.record.number, conversationId);
    else if (options.agent !== undefined) yield damagedRecord(conversationKey(conversationId), found.unreadable);
  }
  yield* surveyMarks(context, agent);
  if (!options.deep) return;
  const live = await findLiveMessages(context, agent);
  const numbers = new Map([...live.keys()].map((number) => [messageTape(number), number]));
  const spans = [...live].flatMap(([number, intervals]) =>
    intervals.spans().map((span) => ({ tape: messageTape(number), ...span })),
  );
  for await (const { tape, item, reason } of findUnreadableItems(context, spans, options, blobs)) {
    const number = numbers.get(tape) as number;
    const conversationId = idByNumber.get(number);
    const owner = { ...(agent !== "" && { agent }), ...(conversationId !== undefined && { conversationId }) };
    const place = `message ${item} of conversation ${conversationId ?? `number ${number}, which only checkpoints reference`}`;
    yield { kind: "item", ...owner, checkpoints: [], place, reason, location: { tape, item } };
  }
}

/** Every conversation that has changed since the newest checkpoint of its agent has a mark. */
async function* surveyMarks(context: Context, agent: string): AsyncGenerator<Finding> {
  if (agent === "") return;
  try {
    for (const conversationId of await findUnmarkedConversations(new SessionReader(context, agentHistoryId(agent)))) {
      yield { ...missingRecord(changedConversationKey(agent, conversationId)), agent, conversationId };
    }
  } catch (error) {
    // What is damaged is reported where it is surveyed. A damaged head without a row looks like one that was replaced meanwhile.
    if (!isSavepointError(error, "DAMAGED") && !isSavepointError(error, "CHECKPOINT_NOT_FOUND")) throw error;
  }
}

async function* surveyBlobs(
  { store }: Context,
  blobs: ReadonlySet<string>,
  options: SurveyOptions,
): AsyncGenerator<Finding> {
  for (const hash of blobs) {
    const bytes = await store.blob(hash);
    options.counts.blobs++;
    if ("unreadable" in bytes) {
      const location = { blob: hash };
      yield { kind: "blob", checkpoints: [], place: `blob ${hash}`, reason: bytes.unreadable, location };
    }
    options.onProgress();
  }
}

/** Repeats a survey that has findings, and yields those that it finds both times: data that was freed meanwhile is not damaged. */
async function* confirm(run: () => AsyncGenerator<Finding>): AsyncGenerator<Finding> {
  const first = new Set<string>();
  for await (const finding of run()) first.add(findingKey(finding));
  if (first.size === 0) return;
  for await (const finding of run()) if (first.has(findingKey(finding))) yield finding;
}
