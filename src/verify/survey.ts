/**
 * Looks at a store, and tells what is wrong with it. It may be written to meanwhile: what is missing because it has just
 * been freed is looked for again before it is called damaged.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { type KeyRange, scan, type Store } from "../store/index.js";
import { listAgentsWithConversations, findLiveMessages } from "../gc/index.js";
import type { Context } from "../context.js";
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
  conversationKey,
  conversationNumberKey,
  conversationsOf,
  decodeConversation,
  decodeNumbers,
  decodeSession,
  queueEntriesOf,
  labelsOf,
  messageCounterKey,
  messageTape,
  NEXT_NUMBER_KEY,
  notesOf,
  sessionNumberKey,
  rowsOf,
  runsOf,
  sessionKey,
  sessionsOfAgent,
} from "../records/index.js";
import { decodeConversationListing, readConversations } from "../conversations/index.js";
import { readAhead } from "../util/index.js";
import { SessionReader } from "../sessions/index.js";
import { damagedRecord, type Finding, findingKey, missingRecord } from "./findings.js";
import { findUnreadableItems, type SurveyOptions, type SurveyCounts } from "./survey-types.js";
import { surveySession } from "./session-survey.js";

/** No key is behind this one. */
const EVERYTHING: KeyRange = { from: "", to: "\u{10ffff}" };
const MANY = 256;
/** Sessions that are verified concurrently: while the store answers for one, another is checked. */
const SESSIONS_AT_ONCE = 4;

/** Everything that is wrong. */
export async function* survey(context: Context, options: SurveyOptions): AsyncGenerator<Finding> {
  const { session, agent } = options;
  const isAll = session === undefined && agent === undefined;
  if (isAll) {
    for (const { place, reason, record } of (await context.store.check?.()) ?? []) {
      if (record === undefined) yield { kind: "store", checkpoints: [], place, reason };
      else yield damagedRecord(record, reason);
    }
    yield* surveyRecords(context, EVERYTHING, options.counts);
    yield* surveyCounter(context);
  }
  const blobs = new Set<string>();
  const surveyed = readAhead(sessionsToSee(context, options), SESSIONS_AT_ONCE, async ({ reader, number }) => {
    const findings: Finding[] = [];
    for (const range of isAll ? [] : rangesOf(reader.sessionId, number)) {
      for await (const finding of surveyRecords(context, range, options.counts)) findings.push(finding);
    }
    for await (const finding of twice(() => surveySession(reader, number, options, blobs))) findings.push(finding);
    return { reader, findings };
  });
  for await (const { reader, findings } of surveyed) {
    yield* findings;
    // Checkpoints of whole agents are kept like those of sessions, and are none.
    if (agentOfHistoryId(reader.sessionId) === undefined) options.counts.sessions++;
    options.onProgress();
    await nextTurn();
  }
  if (isAll) yield* surveyLists(context);
  const agents =
    session !== undefined ? [] : agent !== undefined ? [agent] : await listAgentsWithConversations(context);
  for (const each of agents) yield* twice(() => surveyConversations(context, each, options, blobs));
  if (options.deep) yield* surveyBlobs(context, blobs, options);
}

async function* surveyRecords({ store }: Context, range: KeyRange, counts: SurveyCounts): AsyncGenerator<Finding> {
  for await (const record of scan(store, range)) {
    counts.records++;
    if ("unreadable" in record)
      yield { ...damagedRecord(record.key, record.unreadable), ...(await ownerOfRow(store, record.key)) };
    if (counts.records % MANY === 0) await nextTurn();
  }
}

/** Whose a checkpoint, or what is attached to it, is: their keys have only the number of the session. */
async function ownerOfRow(store: Store, key: string): Promise<{ sessionId?: string; agent?: string }> {
  if (!/^[zalw]/.test(key)) return {};
  const [listed] = await store.get([sessionNumberKey(decodeNumbers(key.slice(1), 1).numbers[0] as number)]);
  if (!listed || !("value" in listed)) return {};
  const agent = agentOfHistoryId(listed.value);
  return agent === undefined ? { sessionId: listed.value } : { agent };
}

/** Without the counter, numbers would be given a second time. */
async function* surveyCounter({ store }: Context): AsyncGenerator<Finding> {
  const [counter] = await store.get([NEXT_NUMBER_KEY]);
  if (counter) return;
  for (const range of [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS]) {
    if ((await store.list(range, { limit: 1 })).length === 0) continue;
    yield missingRecord(NEXT_NUMBER_KEY);
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

interface SeenSession {
  readonly reader: SessionReader;
  readonly number: number;
}

async function* sessionsToSee(context: Context, { session, agent }: SurveyOptions): AsyncGenerator<SeenSession> {
  if (session !== undefined) yield* oneSession(context, session);
  else if (agent !== undefined) {
    yield* oneSession(context, agentHistoryId(agent));
    for await (const record of scan(context.store, sessionsOfAgent(agent))) {
      if ("value" in record) yield* oneSession(context, record.value);
    }
  } else {
    // By what lists them, and by what they say themselves: either may be lost.
    const seen = new Set<string>();
    for await (const record of scan(context.store, ALL_SESSION_NUMBERS)) {
      const number = decodeNumbers(record.key.slice(1), 1).numbers[0] as number;
      if ("value" in record) yield { reader: new SessionReader(context, record.value), number };
      if ("value" in record) seen.add(record.value);
    }
    for await (const record of scan(context.store, ALL_SESSIONS)) {
      const [, id = "", branch] = record.key.split("\t");
      if (branch !== undefined || seen.has(id) || !("value" in record)) continue;
      yield { reader: new SessionReader(context, id), number: decodeSession(record.value).number };
    }
  }
}

async function* oneSession(context: Context, id: string): AsyncGenerator<SeenSession> {
  const reader = new SessionReader(context, id);
  const number = await reader.findNumber();
  if (number !== undefined) yield { reader, number };
}

/** Every conversation is in the list of all, and in that of its agent. */
async function* surveyLists({ store }: Context): AsyncGenerator<Finding> {
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
  if (!options.deep) return;
  const live = await findLiveMessages(context, agent);
  const numbers = new Map([...live.keys()].map((number) => [messageTape(number), number]));
  const spans = [...live].flatMap(([number, intervals]) =>
    intervals.spans().map((span) => ({ tape: messageTape(number), ...span })),
  );
  for await (const { tape, item, reason } of findUnreadableItems(context, spans, options, blobs)) {
    const number = numbers.get(tape) as number;
    const conversationId = idByNumber.get(number);
    const whose = { ...(agent !== "" && { agent }), ...(conversationId !== undefined && { conversationId }) };
    const place = `message ${item} of conversation ${conversationId ?? `number ${number}, which only checkpoints have`}`;
    yield { kind: "item", ...whose, checkpoints: [], place, reason, location: { tape, item } };
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
      yield {
        kind: "blob",
        checkpoints: [],
        place: `blob ${hash}`,
        reason: bytes.unreadable,
        location: { blob: hash },
      };
    }
    options.onProgress();
  }
}

/** What is found at both of two looks: what was freed in between is not damage. */
async function* twice(look: () => AsyncGenerator<Finding>): AsyncGenerator<Finding> {
  const first: Finding[] = [];
  for await (const finding of look()) first.push(finding);
  if (first.length === 0) return;
  const known = new Set(first.map(findingKey));
  for await (const finding of look()) if (known.has(findingKey(finding))) yield finding;
}
