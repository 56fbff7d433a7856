/** Writing part of a store, or all of it, as one stream that any other store can take in. */
import { randomUUID } from "node:crypto";
import { isSavepointError } from "../../errors.js";
import { replaceFile } from "../../store/replace-file.js";
import { scan } from "../../store/scan.js";
import { readLineState } from "../agent-checkpoints.js";
import { checkFields, invalidArgument } from "../arguments.js";
import { agentsWithConversations } from "../collect-conversations.js";
import type { Context } from "../context.js";
import { findCheckpoint, type FoundCheckpoint } from "../find-checkpoint.js";
import { checkId } from "../ids.js";
import { agentLine, agentOfLine, ALL_NUMBERS, sessionsOfAgent } from "../keys.js";
import { agentNotFound } from "../saved-agent.js";
import { sessionNotFound, unknownCheckpoint } from "../session-errors.js";
import { SessionReader } from "../session-reader.js";
import {
  exportConversations,
  exportMessages,
  messagesOfState,
  numbersOfConversations,
} from "./export-conversations.js";
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
    await replaceFile(path, stream.chunks());
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
  readonly numbers: readonly number[];
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
    const numbers = [
      plan.numbers.reduce((a, b) => Math.min(a, b), Infinity),
      plan.numbers.reduce((a, b) => Math.max(a, b), 0),
    ];
    const [lowest = 0, highest = 0] = plan.numbers.length > 0 ? numbers : [0, 0];
    yield writer.line({ savepoint: "bundle", format: BUNDLE_FORMAT, id, kind, createdAt, numbers: [lowest, highest] });
    for await (const section of plan.sections) {
      let place: string | undefined;
      try {
        for await (const line of section) {
          if ("begin" in line) place = describe(line);
          else if ("hole" in line) holes.push({ place: `${place}: ${String(line.hole)}`, reason: line.reason });
          else if ("row" in line) counts.checkpoints++;
          else if ("items" in line) counts.items += line.items[2].length;
          yield writer.line(line);
        }
      } catch (error) {
        // One whose own record is damaged cannot be told; the others can.
        if (place !== undefined || !isSavepointError(error, "DAMAGED")) throw error;
        holes.push({ place: "a session", reason: error.message });
      }
      if (place === undefined) continue;
      counts.sections++;
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
  if (start.begin === "conversations") {
    return start.agent === undefined ? "conversations" : `conversations of agent ${start.agent}`;
  }
  const agent = agentOfLine(start.id);
  return agent === undefined ? `session ${start.id}` : `agent ${agent}`;
}

type CheckedTarget = { readonly [Kind in "checkpoint" | "session" | "agent"]?: string };

function checkTarget(target: ExportTarget): CheckedTarget {
  const named: CheckedTarget = typeof target === "string" ? { checkpoint: target } : { ...target };
  checkFields(named, "What is exported", new Set(["checkpoint", "session", "agent"]));
  for (const [kind, id] of Object.entries(named)) checkId(id, `${kind} id`);
  if (Object.keys(named).length > 1) throw invalidArgument("Export one of: a checkpoint, a session, an agent; or all.");
  return named;
}

async function planOf(context: Context, { checkpoint, session, agent }: CheckedTarget): Promise<Plan> {
  const written = new Set<string>();
  if (checkpoint !== undefined) {
    const found = await findCheckpoint(context, checkpoint);
    if (!found) throw unknownCheckpoint(checkpoint);
    return checkpointPlan(context, found, written);
  }
  if (session !== undefined) {
    const reader = new SessionReader(context, session);
    const number = (await reader.session())?.record.number;
    if (number === undefined) throw sessionNotFound(session);
    return { kind: "session", numbers: [number], sections: sessionSections([reader], written) };
  }
  const agents: (string | undefined)[] = agent === undefined ? await allAgents(context) : [agent];
  const readers = agent === undefined ? await allSessions(context) : await sessionsOf(context, agent);
  const numbers = await numbersOf(readers);
  for (const each of agents) for (const number of await numbersOfConversations(context, each)) numbers.push(number);
  async function* sections(): Plan["sections"] {
    // Conversations first: checkpoints of their agents point at them.
    for (const each of agents) yield exportConversations(context, each, written);
    yield* sessionSections(readers, written);
  }
  return { kind: agent === undefined ? "all" : "agent", numbers, sections: sections() };
}

async function* sessionSections(readers: readonly SessionReader[], written: Set<string>): Plan["sections"] {
  for (const reader of readers) yield exportSession(reader, written);
}

async function checkpointPlan(
  context: Context,
  { reader, number, row, agent }: FoundCheckpoint,
  written: Set<string>,
): Promise<Plan> {
  const live = agent === undefined ? undefined : messagesOfState(agent, await readLineState(reader, number, row));
  async function* sections(): Plan["sections"] {
    if (live && agent !== undefined) yield exportMessages(context, agent, live, written);
    yield exportSession(reader, written, row);
  }
  return { kind: "checkpoint", numbers: [number, ...(live?.keys() ?? [])], sections: sections() };
}

async function allAgents(context: Context): Promise<(string | undefined)[]> {
  return (await agentsWithConversations(context)).map((agent) => agent || undefined);
}

async function allSessions(context: Context): Promise<SessionReader[]> {
  const readers: SessionReader[] = [];
  for await (const record of scan(context.store, ALL_NUMBERS)) {
    if ("value" in record) readers.push(new SessionReader(context, record.value));
  }
  return readers;
}

async function sessionsOf(context: Context, agent: string): Promise<SessionReader[]> {
  const line = new SessionReader(context, agentLine(agent));
  const readers = (await line.session()) ? [line] : [];
  for await (const record of scan(context.store, sessionsOfAgent(agent))) {
    if ("value" in record) readers.push(new SessionReader(context, record.value));
  }
  if (readers.length === 0 && (await numbersOfConversations(context, agent)).length === 0) throw agentNotFound(agent);
  return readers;
}

async function numbersOf(readers: readonly SessionReader[]): Promise<number[]> {
  const numbers: number[] = [];
  for (const reader of readers) {
    const number = await reader.anyNumber();
    if (number !== undefined) numbers.push(number);
  }
  return numbers;
}
