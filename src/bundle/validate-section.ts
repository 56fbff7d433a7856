/**
 * Validates the content of a section before anything of it is used. Anybody can write a bundle whose hashes fit, so a section
 * must not name anything outside of itself: its items refer to its own items, its numbers are in the range of the bundle, and
 * its conversations belong to its agent.
 */
import {
  agentOfHistoryId,
  ANNOTATIONS_TAPE,
  decodeBranch,
  decodeConversation,
  decodeJournal,
  decodeQueueEntry,
  decodeRow,
  decodeSession,
  decodeStatusNote,
  isId,
  itemsOfJournal,
  itemsOfStream,
  itemsOfRun,
  piecesOf,
  validateRecord,
} from "../records/index.js";
import { parseRefs, parseStoredJson, type Piece } from "../state/index.js";
import {
  getOrAdd,
  IntervalSet,
  either,
  isCounter,
  isNumber,
  isString,
  listOf,
  objectOf,
  oneOf,
  optional,
  type Shape,
  tupleOf,
} from "../util/index.js";
import { type BundleFrame, type BundleHeader, type BundleLine, damagedBundle, type SectionStart } from "./format.js";

/** Validates the first line of a section. */
export function validateStart(start: SectionStart, header: BundleHeader): SectionStart {
  if (start.begin === "holes") return start;
  const isNumberOfBundle: Shape = (value) => isInRange(value, header);
  const shape = start.begin === "session" ? sessionStart(isNumberOfBundle) : conversationsStart(isNumberOfBundle);
  if (shape(start)) return start;
  throw damagedBundle("a section begins with an invalid line");
}

function isInRange(number: unknown, { numbers: [lowest, highest] }: BundleHeader): boolean {
  return isCounter(number) && (number as number) >= lowest && (number as number) <= highest;
}

const isSessionId: Shape = (value) => isString(value) && isId(agentOfHistoryId(value as string) ?? value);
const isHash: Shape = (value) => isString(value) && /^[0-9a-f]{64}$/.test(value as string);
const sessionStart = (isBundleNumber: Shape): Shape =>
  objectOf({ begin: oneOf("session"), id: isSessionId, number: isBundleNumber, createdAt: isNumber });
const conversationsStart = (isBundleNumber: Shape): Shape =>
  objectOf({
    begin: oneOf("conversations"),
    agent: optional(isId),
    agentCreatedAt: optional(isNumber),
    moves: listOf(objectOf({ upTo: isBundleNumber, by: isCounter })),
    conversations: listOf(tupleOf(isId, isNumber, isBundleNumber)),
  });

/** The shapes of lines, by the field that names their kind. */
const LINES: ReadonlyMap<string, Shape> = new Map([
  ["items", objectOf({ items: tupleOf(isCounter, isCounter, listOf(tupleOf(isString, optional(isString)))) })],
  ["blob", objectOf({ blob: isHash, bytes: isString })],
  ["hole", objectOf({ hole: either(isString, tupleOf(isCounter, isCounter, optional(isCounter))), reason: isString })],
  ["row", objectOf({ row: isCounter, value: isString, refs: optional(isString) })],
  ["note", objectOf({ note: tupleOf(isCounter, oneOf("label", "pin", "status"), isString) })],
  ["attached", objectOf({ attached: tupleOf(isCounter, isId, isString, isString) })],
  ["attachments", objectOf({ attachments: (value) => isString(value) && isCounter(Number(value)) })],
  ["branch", objectOf({ branch: isId, value: isString })],
  ["run", objectOf({ run: tupleOf(isString, isString) })],
  ["due", objectOf({ due: tupleOf(isId, isString) })],
  ["session", objectOf({ session: isString })],
  [
    "conversation",
    objectOf({
      conversation: isId,
      value: isString,
      count: isCounter,
      lastMessageAt: isNumber,
      firstTitle: optional(isString),
    }),
  ],
  ["gone", objectOf({ gone: isCounter })],
]);

/** Returns whether a line is of exactly one kind, and has the shape of that kind. */
function isLine(line: BundleLine): boolean {
  const [kind, ...others] = Object.keys(line).filter((name) => LINES.has(name));
  return kind !== undefined && others.length === 0 && LINES.get(kind)?.(line) === true;
}

/**
 * Validates the lines of a section.
 *
 * @throws `DAMAGED` at the first invalid line, or if something refers to an item that the section does not have
 */
export async function validateSection(
  start: SectionStart,
  lines: AsyncIterable<BundleLine>,
  header: BundleHeader,
): Promise<void> {
  const check = start.begin === "conversations" ? new ConversationsCheck(start.agent, header) : new SessionCheck();
  for await (const line of lines) {
    if (!isLine(line)) throw damagedBundle(`a line is invalid: ${JSON.stringify(line).slice(0, 80)}`);
    if ("items" in line) check.items(...line.items);
    else if ("hole" in line && typeof line.hole !== "string")
      check.stored(line.hole[0], line.hole[1], line.hole[2] ?? 1);
    else check.line(line);
  }
  check.end();
}

/** What a section has, and what it refers to. */
class ReferenceCheck {
  readonly #stored = new Map<number, IntervalSet>();
  readonly #used = new Map<number, IntervalSet>();

  /** Items of a tape, or holes in the place of items. */
  stored(tape: number, first: number, count: number): void {
    if (!isCounter(first + count)) throw damagedBundle("an item has an invalid number");
    getOrAdd(this.#stored, tape, () => new IntervalSet()).add(first, count);
  }

  items(tape: number, first: number, frames: readonly BundleFrame[]): void {
    this.stored(tape, first, frames.length);
    for (const [json, refs = ""] of frames) {
      parseStoredJson(json);
      this.refs(refs, tape);
    }
  }

  /** @param tape the tape of the frame, which its refs do not name */
  refs(refs: string, tape: number): void {
    for (const ref of parseRefs(refs, tape)) if ("pieces" in ref) for (const piece of ref.pieces) this.use(piece);
  }

  use({ tape, start, count }: Piece): void {
    if (count > 0) getOrAdd(this.#used, tape, () => new IntervalSet()).add(start, count);
  }

  end(): void {
    for (const [tape, used] of this.#used) {
      const stored = this.#stored.get(tape) ?? new IntervalSet();
      for (const { start, count } of used.spans()) {
        if (stored.add(start, count).length > 0) throw damagedBundle("it refers to items that it does not have");
      }
    }
  }
}

class SessionCheck extends ReferenceCheck {
  line(line: BundleLine): void {
    if ("row" in line) {
      const { tape, skeleton, run } = decodeRow(line.row, line.value, line.refs ?? "");
      this.refs(skeleton.refs, tape);
      const entries = run && itemsOfRun(run);
      if (entries) this.use(entries);
      if (run?.output) this.use(run.output);
    } else if ("branch" in line) {
      const { name, head } = decodeBranch(line.value);
      if (name !== line.branch) throw damagedBundle(`the record of branch ${line.branch} is that of another branch`);
      if (head) this.refs(head.skeleton.refs, head.tape);
    } else if ("attached" in line) {
      const [, , value, refs] = line.attached;
      parseStoredJson(value);
      this.refs(refs, ANNOTATIONS_TAPE);
    } else if ("run" in line) this.#run(line.run);
    else if ("note" in line && line.note[1] === "status") decodeStatusNote(line.note[2]);
    else if ("due" in line) decodeQueueEntry(line.due[1]);
    else if ("session" in line) decodeSession(line.session);
    else if ("conversation" in line || "gone" in line) throw damagedBundle("a session has a line of a conversation");
  }

  /** @param run a pair: the key of the record (without the prefix that all runs of a session share) and its value */
  #run([key, value]: readonly [key: string, value: string]): void {
    const [branch = "", part = "", ...more] = key.split("\t");
    if (!isId(branch) || more.length > 0 || !/^[jrmt]/.test(part)) throw damagedBundle("a run has an invalid key");
    const checked = validateRecord({ key: `r\tsession\t${key}`, value, refs: "" });
    if ("unreadable" in checked) throw damagedBundle(`a run is invalid: ${checked.unreadable}`);
    if (part !== "j") return;
    const journal = decodeJournal(value);
    this.use(itemsOfJournal(journal));
    const stream = itemsOfStream(journal);
    if (stream) this.use(stream);
  }
}

class ConversationsCheck extends ReferenceCheck {
  readonly #agent: string | undefined;
  readonly #header: BundleHeader;

  constructor(agent: string | undefined, header: BundleHeader) {
    super();
    this.#agent = agent;
    this.#header = header;
  }

  line(line: BundleLine): void {
    if ("gone" in line && !isInRange(line.gone, this.#header)) throw outsideRange();
    if ("row" in line || "branch" in line || "run" in line || "due" in line || "session" in line) {
      throw damagedBundle("conversations have a line of a session");
    }
    if (!("conversation" in line)) return;
    const record = decodeConversation(line.value);
    if (record.agent !== this.#agent) throw damagedBundle("a conversation belongs to another agent than its section");
    const numbers = [record.number, record.order, ...record.base.map(({ tape }) => tape)];
    if (!numbers.every((number) => isInRange(number, this.#header))) throw outsideRange();
    if (record.tapeStart > line.count) throw damagedBundle("a conversation has fewer messages than it says");
    for (const piece of piecesOf(record, line.count)) this.use(piece);
  }

  override items(number: number, first: number, frames: readonly BundleFrame[]): void {
    if (!isInRange(number, this.#header)) throw outsideRange();
    super.items(number, first, frames);
  }
}

function outsideRange(): Error {
  return damagedBundle("a number is outside its range");
}
