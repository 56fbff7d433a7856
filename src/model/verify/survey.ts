/**
 * Looks at a store, and tells what is wrong with it. It may be written to meanwhile: what is missing because it has just
 * been freed is looked for again before it is called damaged.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { scan } from "../../store/scan.js";
import type { KeyRange } from "../../store/store.js";
import { agentsWithConversations, liveMessages } from "../collect-conversations.js";
import type { Context } from "../context.js";
import { readConversations } from "../conversation-reader.js";
import { listedConversation } from "../conversation-commit.js";
import {
  agentLine,
  ALL_NUMBERS,
  branchesOf,
  conversationsOf,
  decodeNumbers,
  dueOf,
  labelsOf,
  messageTape,
  notesOf,
  rowsOf,
  runsOf,
  sessionKey,
  sessionsOfAgent,
} from "../keys.js";
import { SessionReader } from "../session-reader.js";
import { damagedRecord, type Finding, findingKey } from "./findings.js";
import { readAll, type Survey, type SurveyCounts } from "./look.js";
import { surveySession } from "./survey-session.js";

/** No key is behind this one. */
const EVERYTHING: KeyRange = { from: "", to: "\u{10ffff}" };
const MANY = 256;

/** Everything that is wrong. */
export async function* survey(context: Context, options: Survey): AsyncGenerator<Finding> {
  const { session, agent } = options;
  if (session === undefined && agent === undefined) {
    for (const { place, reason } of (await context.store.check?.()) ?? []) {
      yield { kind: "store", checkpoints: [], place, reason };
    }
    yield* surveyRecords(context, EVERYTHING, options.counts);
  }
  const blobs = new Set<string>();
  for await (const { reader, number } of sessionsToSee(context, options)) {
    if (session !== undefined || agent !== undefined) {
      for (const range of rangesOf(reader.sessionId, number)) yield* surveyRecords(context, range, options.counts);
    }
    yield* twice(() => surveySession(reader, number, options, blobs));
    options.counts.sessions++;
    options.onProgress();
    await nextTurn();
  }
  const agents = session !== undefined ? [] : agent !== undefined ? [agent] : await agentsWithConversations(context);
  for (const each of agents) yield* twice(() => surveyConversations(context, each, options, blobs));
  if (options.deep) yield* surveyBlobs(context, blobs, options);
}

async function* surveyRecords({ store }: Context, range: KeyRange, counts: SurveyCounts): AsyncGenerator<Finding> {
  for await (const record of scan(store, range)) {
    counts.records++;
    if ("unreadable" in record) yield damagedRecord(record.key, record.unreadable);
    if (counts.records % MANY === 0) await nextTurn();
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
    labelsOf(number),
    runsOf(sessionId),
    dueOf(sessionId),
  ];
}

interface SeenSession {
  readonly reader: SessionReader;
  readonly number: number;
}

async function* sessionsToSee(context: Context, { session, agent }: Survey): AsyncGenerator<SeenSession> {
  if (session !== undefined) yield* oneSession(context, session);
  else if (agent !== undefined) {
    yield* oneSession(context, agentLine(agent));
    for await (const record of scan(context.store, sessionsOfAgent(agent))) {
      if ("value" in record) yield* oneSession(context, record.value);
    }
  } else {
    for await (const record of scan(context.store, ALL_NUMBERS)) {
      const number = decodeNumbers(record.key.slice(1), 1).numbers[0] as number;
      if ("value" in record) yield { reader: new SessionReader(context, record.value), number };
    }
  }
}

async function* oneSession(context: Context, id: string): AsyncGenerator<SeenSession> {
  const reader = new SessionReader(context, id);
  const number = await reader.anyNumber();
  if (number !== undefined) yield { reader, number };
}

async function* surveyConversations(
  context: Context,
  agent: string,
  options: Survey,
  blobs: Set<string>,
): AsyncGenerator<Finding> {
  const ids: string[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    if ("value" in record) ids.push(listedConversation(record.value).id);
  }
  options.counts.conversations += ids.length;
  for (const [index, found] of (await readConversations(context, ids)).entries()) {
    const conversationId = ids[index] as string;
    if (found) continue;
    const place = `conversation ${conversationId}`;
    yield { kind: "structure", conversationId, checkpoints: [], place, reason: "it is in the list, and is not there" };
  }
  if (!options.deep) return;
  for (const [number, intervals] of await liveMessages(context, agent)) {
    for (const span of intervals.spans()) {
      const tape = messageTape(number);
      for await (const { item, reason } of readAll(context, { tape, ...span }, options, blobs)) {
        const place = `message ${item} of conversation number ${number}`;
        yield { kind: "item", ...(agent !== "" && { agent }), checkpoints: [], place, reason, at: { tape, item } };
      }
    }
  }
}

async function* surveyBlobs({ store }: Context, blobs: ReadonlySet<string>, options: Survey): AsyncGenerator<Finding> {
  for (const hash of blobs) {
    const bytes = await store.blob(hash);
    options.counts.blobs++;
    if ("unreadable" in bytes) {
      yield { kind: "blob", checkpoints: [], place: `blob ${hash}`, reason: bytes.unreadable, at: { blob: hash } };
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
