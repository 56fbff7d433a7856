/** Exporting a part of a store, or all of it, as a bundle. */
import { randomUUID } from "node:crypto";
import { isSavepointError, SavepointError } from "../errors.js";
import { agentNotFound, readAgentState } from "../agents/index.js";
import type { Context } from "../context.js";
import { sealStream } from "../encryption/index.js";
import { listAgentsWithConversations } from "../gc/index.js";
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
import {
  type CheckpointMatch,
  checkpointNotInStore,
  describeSession,
  findCheckpoint,
  sessionNotFound,
  SessionReader,
} from "../sessions/index.js";
import { scan } from "../store/index.js";
import { validateFields, invalidArgument } from "../util/index.js";
import { renameInLine } from "./blob-names.js";
import { Bundle, type BundleHole, type BundleProgress, type BundleStream, describeHole } from "./bundle.js";
import { exportConversations, exportMessages, messagesOfState } from "./export-conversations.js";
import { exportSession } from "./export-session.js";
import {
  BUNDLE_FORMAT,
  type BundleKind,
  type BundleLine,
  BundleWriter,
  type SectionLines,
  type SectionStart,
} from "./format.js";
import type { WrittenBlobs } from "./frames.js";

/** What to export: a checkpoint by id, a session, an agent with its conversations and sessions, or with `{}` everything. */
export type ExportTarget =
  | string
  | { readonly checkpoint: string }
  | { readonly session: string }
  | { readonly agent: string }
  | { readonly [name: string]: never };

/** Options of `sp.export()`. */
export interface ExportOptions {
  /** Called after every section and chunk. */
  readonly onProgress?: (progress: BundleProgress) => void;
}

/** Bytes per chunk of the stream. */
const CHUNK_BYTES = 1 << 16;

/** The sections of a bundle, in order. */
interface ExportPlan {
  readonly kind: BundleKind;
  /** The lowest and the highest number of a session or conversation in the bundle. */
  readonly numbers: readonly [lowest: number, highest: number];
  readonly sections: AsyncIterable<SectionLines> | Iterable<SectionLines>;
}

/** Prepares an export. Validates the target; reads nothing before the bundle is read. */
export function exportBundle(context: Context, target: ExportTarget, options: ExportOptions = {}): Bundle {
  const parsed = parseTarget(target);
  return new Bundle(() => createStream(context, parsed, options));
}

function createStream(context: Context, target: ParsedTarget, { onProgress }: ExportOptions): BundleStream {
  const counts = { sections: 0, checkpoints: 0, items: 0, bytes: 0 };
  const holes: BundleHole[] = [];
  const id = randomUUID();
  const createdAt = context.now();
  let kind: BundleKind = "all";
  const { isEncrypted } = context.encryption;
  async function* lines(): AsyncGenerator<Buffer> {
    const writer = new BundleWriter();
    const blobsWritten: WrittenBlobs = new Map();
    const plan = await planExport(context, target, blobsWritten);
    ({ kind } = plan);
    yield writer.header({ savepoint: "bundle", format: BUNDLE_FORMAT, id, kind, createdAt, numbers: plan.numbers });
    for await (const section of plan.sections) {
      const tally = { checkpoints: 0, items: 0, holes: [] as BundleHole[] };
      let owner: string | undefined;
      for await (const line of section) {
        if ("begin" in line) owner = describeSection(line);
        else if ("again" in line) [tally.checkpoints, tally.items, tally.holes] = [0, 0, []];
        else if ("hole" in line) tally.holes.push({ place: describeHole(owner, line.hole), reason: line.reason });
        else if ("row" in line) tally.checkpoints++;
        else if ("items" in line) tally.items += line.items[2].length;
        yield writer.line(isEncrypted ? renameInLine(line, blobsWritten) : line);
      }
      // The session was deleted before its section began.
      if (owner === undefined) continue;
      counts.sections++;
      counts.checkpoints += tally.checkpoints;
      counts.items += tally.items;
      holes.push(...tally.holes);
      yield writer.endSection();
      onProgress?.({ ...counts });
    }
    yield writer.complete();
  }
  async function* plainChunks(): AsyncGenerator<Uint8Array> {
    let [pending, length] = [[] as Buffer[], 0];
    for await (const line of lines()) {
      if (context.encryption.isEncrypted !== isEncrypted) throw encryptedMeanwhile(context.store.url);
      pending.push(line);
      length += line.length;
      if (length < CHUNK_BYTES) continue;
      yield Buffer.concat(pending);
      [pending, length] = [[], 0];
    }
    if (length > 0) yield Buffer.concat(pending);
  }
  async function* chunks(): AsyncGenerator<Uint8Array> {
    const key = isEncrypted ? await context.encryption.sealingKey() : undefined;
    for await (const chunk of key ? sealStream(plainChunks(), key) : plainChunks()) {
      counts.bytes += chunk.length;
      yield chunk;
      onProgress?.({ ...counts });
    }
  }
  return { chunks, summary: () => ({ id, kind, createdAt, ...counts, holes }) };
}

function encryptedMeanwhile(url: string): SavepointError<"CONFLICT"> {
  return new SavepointError("CONFLICT", `The store ${url} was encrypted during the export. Export again.`);
}

function describeSection(start: SectionStart): string {
  if (start.begin === "holes") return "";
  if (start.begin === "conversations") {
    return start.agent === undefined ? "conversations" : `conversations of agent ${start.agent}`;
  }
  const agent = agentOfHistoryId(start.id);
  return agent === undefined ? `session ${start.id}` : `agent ${agent}`;
}

/** At most one of them is set. */
type ParsedTarget = { readonly [Kind in "checkpoint" | "session" | "agent"]?: string };

function parseTarget(target: ExportTarget): ParsedTarget {
  const named: ParsedTarget = typeof target === "string" ? { checkpoint: target } : target;
  validateFields(named, "The target of an export", new Set(["checkpoint", "session", "agent"]));
  for (const [kind, id] of Object.entries(named)) checkId(id, `${kind} id`);
  if (Object.keys(named).length > 1) {
    throw invalidArgument(
      "The target of an export is one of `checkpoint`, `session` and `agent`, or {} for everything.",
    );
  }
  return { ...named };
}

async function planExport(
  context: Context,
  { checkpoint, session, agent }: ParsedTarget,
  blobsWritten: WrittenBlobs,
): Promise<ExportPlan> {
  if (checkpoint !== undefined) {
    const found = await findCheckpoint(context, checkpoint);
    if (!found) throw checkpointNotInStore(checkpoint);
    return planCheckpoint(context, found, blobsWritten);
  }
  if (session !== undefined) {
    const reader = new SessionReader(context, session);
    const number = (await reader.session())?.record.number;
    if (number === undefined) throw sessionNotFound(session);
    const section = exportSession(reader, number, blobsWritten, { required: true });
    return { kind: "session", numbers: [number, number], sections: [section] };
  }
  const highest = await highestNumber(context);
  const damaged: BundleLine[] = [];
  const agents =
    agent === undefined ? (await listAgentsWithConversations(context)).map((name) => name || undefined) : [agent];
  const readers = agent === undefined ? await allSessions(context, damaged) : await sessionsOf(context, agent);
  if (agent !== undefined && readers.length === 0 && !(await hasConversations(context, agent)))
    throw agentNotFound(agent);
  async function* sections(): AsyncGenerator<SectionLines> {
    // Conversations first: checkpoints of their agents point at them.
    for (const each of agents) yield exportConversations(context, each, highest, blobsWritten);
    // Sessions with a damaged record are left out, and listed in a last section of holes.
    for (const reader of readers) {
      try {
        await reader.session();
        yield exportSession(reader, highest, blobsWritten);
      } catch (error) {
        if (!isSavepointError(error, "DAMAGED")) throw error;
        damaged.push({ hole: describeSession(reader.sessionId), reason: error.message });
      }
    }
    if (damaged.length > 0) yield holeSection(damaged);
  }
  return { kind: agent === undefined ? "all" : "agent", numbers: [0, highest], sections: sections() };
}

async function planCheckpoint(
  context: Context,
  { reader, number, row, agent }: CheckpointMatch,
  blobsWritten: WrittenBlobs,
): Promise<ExportPlan> {
  const only = { only: row, required: true };
  if (agent === undefined) {
    const section = exportSession(reader, number, blobsWritten, only);
    return { kind: "checkpoint", numbers: [number, number], sections: [section] };
  }
  const highest = await highestNumber(context);
  const messages = messagesOfState(agent, await readAgentState(reader, number, row));
  const sections = [
    exportMessages(context, agent, messages, blobsWritten),
    exportSession(reader, highest, blobsWritten, only),
  ];
  return { kind: "checkpoint", numbers: [0, highest], sections };
}

async function* holeSection(holes: readonly BundleLine[]): SectionLines {
  yield { begin: "holes" };
  yield* holes;
}

/** The highest number that a session or conversation has now. */
async function highestNumber({ store }: Context): Promise<number> {
  const [counter] = await store.get([NEXT_NUMBER_KEY]);
  if (counter && "value" in counter) return Math.max(0, Number(counter.value) - 1);
  // The counter is damaged, or nothing was ever saved: the lists have the numbers too.
  let highest = 0;
  for (const range of [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS]) {
    for await (const { key } of scan(store, range)) {
      highest = Math.max(highest, decodeNumbers(key.slice(1), 1).numbers[0] as number);
    }
  }
  return highest;
}

async function allSessions(context: Context, damaged: BundleLine[]): Promise<SessionReader[]> {
  const ids = new Set<string>();
  for await (const record of scan(context.store, ALL_SESSION_NUMBERS)) {
    if ("value" in record) ids.add(record.value);
    else damaged.push({ hole: record.key, reason: record.unreadable });
  }
  // A session that is missing in a damaged list still has its own record.
  if (damaged.length > 0) {
    for await (const { key } of scan(context.store, ALL_SESSIONS)) {
      const [, id = "", branch] = key.split("\t");
      if (branch === undefined) ids.add(id);
    }
  }
  return [...ids].map((id) => new SessionReader(context, id));
}

async function sessionsOf(context: Context, agent: string): Promise<SessionReader[]> {
  const history = new SessionReader(context, agentHistoryId(agent));
  const readers = (await history.findNumber()) === undefined ? [] : [history];
  for await (const record of scan(context.store, sessionsOfAgent(agent))) {
    if ("value" in record) readers.push(new SessionReader(context, record.value));
  }
  return readers;
}

async function hasConversations({ store }: Context, agent: string): Promise<boolean> {
  return (await store.list(conversationsOf(agent), { limit: 1 })).length > 0;
}
