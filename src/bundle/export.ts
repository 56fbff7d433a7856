/** Writing part of a store, or all of it, as one stream that any other store can take in. */
import { randomUUID } from "node:crypto";
import { isSavepointError } from "../errors.js";
import { validateFields, toFileError, invalidArgument, replaceFile } from "../util/index.js";
import { scan } from "../store/index.js";
import { agentNotFound, readAgentState } from "../agents/index.js";
import { listAgentsWithConversations } from "../gc/index.js";
import type { Context } from "../context.js";
import {
  describeSession,
  findCheckpoint,
  type CheckpointMatch,
  sessionNotFound,
  SessionReader,
  checkpointNotInStore,
} from "../sessions/index.js";
import {
  agentHistoryId,
  agentOfHistoryId,
  ALL_CONVERSATION_NUMBERS,
  ALL_SESSION_NUMBERS,
  ALL_SESSIONS,
  checkId,
  conversationsOf,
  decodeNumbers,
  NEXT_NUMBER_KEY,
  sessionsOfAgent,
} from "../records/index.js";
import { exportConversations, exportMessages, messagesOfState } from "./export-conversations.js";
import { exportSession } from "./export-session.js";
import { BUNDLE_FORMAT, type BundleKind, type BundleLine, BundleWriter, type SectionStart } from "./format.js";

/** What is exported: a checkpoint, by id; a session; an agent with its conversations and sessions; everything, if nothing is said. */
export type ExportTarget =
  | string
  | { readonly checkpoint: string }
  | { readonly session: string }
  | { readonly agent: string }
  | { readonly [name: string]: never };

/** How far an export, an import or a check has come. */
export interface BundleProgress {
  readonly sections: number;
  readonly checkpoints: number;
  readonly items: number;
  readonly bytes: number;
}

export interface ExportOptions {
  /** Told as it goes on. */
  readonly onProgress?: (progress: BundleProgress) => void;
}

/** What could not be read, and is not in a bundle. */
export interface BundleHole {
  /** The session, or the agent whose conversations they are, and what it is of it. */
  readonly place: string;
  readonly reason: string;
}

/** What a bundle holds. */
export interface BundleSummary extends BundleProgress {
  readonly id: string;
  readonly kind: BundleKind;
  readonly createdAt: number;
  readonly holes: readonly BundleHole[];
}

/** A hole for people: items and records are said apart, what is a text already stays. */
export function describeHole(of: string | undefined, hole: readonly [tape: number, item: number] | string): string {
  const what = typeof hole === "string" ? hole : `item ${hole[1]} of tape ${hole[0]}`;
  return of ? `${of}: ${what}` : what;
}

/** Bytes that come together. */
const CHUNK = 1 << 16;

/** An export: read it as a stream, as bytes, or write it to a file. Each reading exports anew. */
export class Bundle implements AsyncIterable<Uint8Array> {
  readonly #make: () => BundleStream;

  /** Use `sp.export()`. */
  constructor(make: () => BundleStream) {
    this.#make = make;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return this.#make().chunks();
  }

  /** All of it. */
  async bytes(): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  /** Writes it to a file, which is there whole or not at all. */
  async save(path: string): Promise<BundleSummary> {
    const stream = this.#make();
    try {
      await replaceFile(path, stream.chunks());
    } catch (error) {
      throw toFileError(error, path, "Writing");
    }
    return stream.summary();
  }

  /** Hands it over part by part, and says in the end what it holds, and what could not be read. */
  async pipe(write: (chunk: Uint8Array) => Promise<void> | void): Promise<BundleSummary> {
    const stream = this.#make();
    for await (const chunk of stream.chunks()) await write(chunk);
    return stream.summary();
  }
}

interface BundleStream {
  chunks(): AsyncGenerator<Uint8Array>;
  /** Once all of it was read. */
  summary(): BundleSummary;
}

/** What a bundle of a target consists of. */
interface Plan {
  readonly kind: BundleKind;
  /** The lowest and the highest number that anything in it may have. */
  readonly numbers: readonly [lowest: number, highest: number];
  readonly sections: AsyncGenerator<AsyncGenerator<SectionStart | BundleLine>>;
}

/** Starts an export. Nothing is read before it is. */
export function exportBundle(context: Context, target: ExportTarget, options: ExportOptions = {}): Bundle {
  const checked = checkTarget(target);
  return new Bundle(() => streamOf(context, checked, options));
}

function streamOf(context: Context, target: CheckedTarget, { onProgress }: ExportOptions): BundleStream {
  const counts = { sections: 0, checkpoints: 0, items: 0, bytes: 0 };
  const holes: BundleHole[] = [];
  const id = randomUUID();
  const createdAt = context.now();
  let kind: BundleKind = "all";
  async function* lines(): AsyncGenerator<Buffer> {
    const writer = new BundleWriter();
    const plan = await planOf(context, target);
    ({ kind } = plan);
    yield writer.header({ savepoint: "bundle", format: BUNDLE_FORMAT, id, kind, createdAt, numbers: plan.numbers });
    for await (const section of plan.sections) {
      const tally = { checkpoints: 0, items: 0, holes: [] as BundleHole[] };
      let place: string | undefined;
      for await (const line of section) {
        if ("begin" in line) place = describe(line);
        else if ("again" in line) [tally.checkpoints, tally.items, tally.holes] = [0, 0, []];
        else if ("hole" in line) tally.holes.push({ place: describeHole(place, line.hole), reason: line.reason });
        else if ("row" in line) tally.checkpoints++;
        else if ("items" in line) tally.items += line.items[2].length;
        yield writer.line(line);
      }
      if (place === undefined) continue;
      counts.sections++;
      counts.checkpoints += tally.checkpoints;
      counts.items += tally.items;
      holes.push(...tally.holes);
      yield writer.endSection();
      onProgress?.({ ...counts });
    }
    yield writer.complete();
  }
  async function* chunks(): AsyncGenerator<Uint8Array> {
    let [waiting, length] = [[] as Buffer[], 0];
    for await (const line of lines()) {
      waiting.push(line);
      length += line.length;
      counts.bytes += line.length;
      if (length < CHUNK) continue;
      yield Buffer.concat(waiting);
      onProgress?.({ ...counts });
      [waiting, length] = [[], 0];
    }
    if (length > 0) yield Buffer.concat(waiting);
  }
  return { chunks, summary: () => ({ id, kind, createdAt, ...counts, holes }) };
}

function describe(start: SectionStart): string {
  if (start.begin === "holes") return "";
  if (start.begin === "conversations") {
    return start.agent === undefined ? "conversations" : `conversations of agent ${start.agent}`;
  }
  const agent = agentOfHistoryId(start.id);
  return agent === undefined ? `session ${start.id}` : `agent ${agent}`;
}

type CheckedTarget = { readonly [Kind in "checkpoint" | "session" | "agent"]?: string };

function checkTarget(target: ExportTarget): CheckedTarget {
  const named: CheckedTarget = typeof target === "string" ? { checkpoint: target } : target;
  validateFields(named, "What is exported", new Set(["checkpoint", "session", "agent"]));
  for (const [kind, id] of Object.entries(named)) checkId(id, `${kind} id`);
  if (Object.keys(named).length > 1) throw invalidArgument("Export one of: a checkpoint, a session, an agent; or all.");
  return { ...named };
}

async function planOf(context: Context, { checkpoint, session, agent }: CheckedTarget): Promise<Plan> {
  const written = new Set<string>();
  if (checkpoint !== undefined) {
    const found = await findCheckpoint(context, checkpoint);
    if (!found) throw checkpointNotInStore(checkpoint);
    return checkpointPlan(context, found, written);
  }
  if (session !== undefined) {
    const reader = new SessionReader(context, session);
    const number = (await reader.session())?.record.number;
    if (number === undefined) throw sessionNotFound(session);
    async function* one(): Plan["sections"] {
      yield exportSession(reader, number as number, written, { required: true });
    }
    return { kind: "session", numbers: [number, number], sections: one() };
  }
  const highest = await highestNumber(context);
  const damaged: BundleLine[] = [];
  const agents =
    agent === undefined ? (await listAgentsWithConversations(context)).map((name) => name || undefined) : [agent];
  const readers = agent === undefined ? await allSessions(context, damaged) : await sessionsOf(context, agent);
  if (agent !== undefined && readers.length === 0 && !(await hasConversations(context, agent)))
    throw agentNotFound(agent);
  async function* sections(): Plan["sections"] {
    // Conversations first: checkpoints of their agents point at them.
    for (const each of agents) yield exportConversations(context, each, highest, written);
    yield* sessionSections(readers, highest, written, damaged);
  }
  return { kind: agent === undefined ? "all" : "agent", numbers: [0, highest], sections: sections() };
}

/** One whose own record is damaged cannot be exported; the others can, and that it is missing is said at the end. */
async function* sessionSections(
  readers: readonly SessionReader[],
  highest: number,
  written: Set<string>,
  damaged: BundleLine[],
): Plan["sections"] {
  for (const reader of readers) {
    try {
      await reader.session();
      yield exportSession(reader, highest, written);
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
      damaged.push({ hole: describeSession(reader.sessionId), reason: error.message });
    }
  }
  if (damaged.length > 0) yield holeSection(damaged);
}

async function* holeSection(holes: readonly BundleLine[]): AsyncGenerator<SectionStart | BundleLine> {
  yield { begin: "holes" };
  yield* holes;
}

async function checkpointPlan(
  context: Context,
  { reader, number, row, agent }: CheckpointMatch,
  written: Set<string>,
): Promise<Plan> {
  if (agent === undefined) {
    async function* one(): Plan["sections"] {
      yield exportSession(reader, number, written, { only: row, required: true });
    }
    return { kind: "checkpoint", numbers: [number, number], sections: one() };
  }
  const highest = await highestNumber(context);
  const live = messagesOfState(agent, await readAgentState(reader, number, row));
  async function* both(name: string): Plan["sections"] {
    yield exportMessages(context, name, live, written);
    yield exportSession(reader, highest, written, { only: row, required: true });
  }
  return { kind: "checkpoint", numbers: [0, highest], sections: both(agent) };
}

/** All numbers that were given so far are lower than the next one. */
async function highestNumber({ store }: Context): Promise<number> {
  const [counter] = await store.get([NEXT_NUMBER_KEY]);
  if (counter && "value" in counter) return Math.max(0, Number(counter.value) - 1);
  // It is damaged, or nothing was ever given: then the lists tell.
  let highest = 0;
  for (const range of [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS]) {
    for await (const { key } of scan(store, range)) highest = Math.max(highest, numberIn(key));
  }
  return highest;
}

const numberIn = (key: string): number => decodeNumbers(key.slice(1), 1).numbers[0] as number;

async function allSessions(context: Context, damaged: BundleLine[]): Promise<SessionReader[]> {
  const ids = new Map<string, number>();
  for await (const record of scan(context.store, ALL_SESSION_NUMBERS)) {
    if ("value" in record) ids.set(record.value, numberIn(record.key));
    else damaged.push({ hole: record.key, reason: record.unreadable });
  }
  // Where the list is damaged, a session still says itself that it is there.
  if (damaged.length > 0) {
    for await (const { key } of scan(context.store, ALL_SESSIONS)) {
      const [, id = "", branch] = key.split("\t");
      if (branch === undefined && !ids.has(id)) ids.set(id, Infinity);
    }
  }
  return [...ids.keys()].map((id) => new SessionReader(context, id));
}

async function sessionsOf(context: Context, agent: string): Promise<SessionReader[]> {
  const line = new SessionReader(context, agentHistoryId(agent));
  const readers = (await line.findNumber()) === undefined ? [] : [line];
  for await (const record of scan(context.store, sessionsOfAgent(agent))) {
    if ("value" in record) readers.push(new SessionReader(context, record.value));
  }
  return readers;
}

async function hasConversations({ store }: Context, agent: string): Promise<boolean> {
  return (await store.list(conversationsOf(agent), { limit: 1 })).length > 0;
}
