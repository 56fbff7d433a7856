/** Pages of the journal of a branch, newest first, in complete steps. A cursor names the next effect, so it never expires. */
import { type Json, type JournalEntry, type JournalHole, type Savepoint, SavepointError } from "../../index.js";
import type { EffectView, HoleView } from "../api.js";
import { badRequest } from "../http/errors.js";
import { toWire } from "../http/responses.js";
import { boundJson } from "./bounded-json.js";
import { cut, omitUndefined } from "./views.js";

/** The most effects of a page, even if the step has more. */
const MAX_EFFECTS = 5000;
/** The most effects that are read to find one. */
const MAX_SKIPPED = 10_000;
const MAX_MESSAGE = 2000;

export interface JournalRequest {
  readonly session: string;
  readonly branch: string;
  readonly cursor: string | undefined;
  /** A page ends with the step that reaches it. */
  readonly limit: number;
  /** The characters of arguments and results. */
  readonly values: number;
}

/** Effects in complete steps, newest first. */
export interface JournalSlice {
  readonly entries: readonly (JournalEntry | JournalHole)[];
  /** The newest effect of the step before, to which the first step of the page can be compared. */
  readonly older: JournalEntry | undefined;
  readonly next: string | undefined;
  /** Whether effects of the last step are missing, because it has too many. */
  readonly isCut: boolean;
}

/** Reads a page. */
export async function readJournalPage(sp: Savepoint, request: JournalRequest): Promise<JournalSlice> {
  const entries: (JournalEntry | JournalHole)[] = [];
  let last: JournalEntry | undefined;
  for await (const entry of entriesFrom(sp, request)) {
    const isNewStep = entry.kind !== "hole" && last !== undefined && !isSameStep(last, entry);
    if (entry.kind !== "hole" && isNewStep && entries.length >= request.limit) {
      return { entries, older: entry, next: toCursor(entries, entry), isCut: false };
    }
    if (entry.kind !== "hole" && entries.length >= MAX_EFFECTS) {
      return { entries, older: undefined, next: toCursor(entries, entry), isCut: true };
    }
    if (entries.length < MAX_EFFECTS) entries.push(entry);
    if (entry.kind !== "hole") last = entry;
  }
  return { entries, older: undefined, next: undefined, isCut: false };
}

/** The effects from the one that a cursor names. */
async function* entriesFrom(
  sp: Savepoint,
  { session, branch, cursor, values }: JournalRequest,
): AsyncGenerator<JournalEntry | JournalHole> {
  const options = { branch, all: true, order: "newest", values: values === 0 ? "none" : values } as const;
  if (cursor === undefined) {
    yield* sp.journal(session, options);
    return;
  }
  const { from, rest } = parseKey(cursor, "a cursor of the journal");
  let [isFound, skipped] = [false, 0];
  for await (const entry of sp.journal(session, { ...options, ...from })) {
    isFound ||= entry.kind !== "hole" && restOfKey(entry) === rest;
    if (isFound) yield entry;
    else if (++skipped > MAX_SKIPPED) break;
  }
  if (!isFound)
    throw new SavepointError("CONFLICT", "The branch was moved meanwhile. Load the journal from the start.");
}

export function isSameStep(a: Pick<JournalEntry, "turn" | "step">, b: Pick<JournalEntry, "turn" | "step">): boolean {
  return a.turn === b.turn && a.step === b.step;
}

/**
 * The cursor of the page that begins with an effect: the key of the effect, with the oldest checkpoint of the page before. That one
 * lists everything that is older than the page; the entries of the page itself that it lists too are skipped.
 */
function toCursor(page: readonly (JournalEntry | JournalHole)[], first: JournalEntry): string {
  const seqs = page.flatMap(({ checkpoint }) => (checkpoint ? [checkpoint.seq] : []));
  return `${seqs.length > 0 ? Math.min(...seqs) : ""}.${restOfKey(first)}`;
}

/** Identifies an effect; the seq of the checkpoint that lists it comes first, so that it is found again. */
export function keyOfEffect(entry: JournalEntry): string {
  return `${entry.checkpoint?.seq ?? ""}.${restOfKey(entry)}`;
}

function restOfKey({ turn, step, index, startedAt }: JournalEntry): string {
  return [turn, step ?? "", index, startedAt].join(".");
}

function parseKey(key: string, what: string): { readonly from: { from?: { seq: number } }; readonly rest: string } {
  const [, seq = "", rest = ""] = /^(\d{0,15})\.(\d+\.\d*\.\d+\.\d+)$/.exec(key) ?? [];
  if (rest === "") throw badRequest(`${JSON.stringify(key)} is not ${what}.`);
  return { from: seq === "" ? {} : { from: { seq: Number(seq) } }, rest };
}

/** Finds an effect by its key; `undefined` if there is none any more. */
export async function findEffect(
  sp: Savepoint,
  session: string,
  branch: string,
  key: string,
): Promise<JournalEntry | undefined> {
  const { from, rest } = parseKey(key, "the key of an effect");
  let [read, first]: [number, JournalEntry | undefined] = [0, undefined];
  for await (const entry of sp.journal(session, { branch, all: true, order: "newest", ...from })) {
    if (entry.kind === "hole") continue;
    if (restOfKey(entry) === rest) return entry;
    first ??= entry;
    // It is in the newest step, or in one that has just ended.
    if (++read >= MAX_SKIPPED && !isSameStep(first, entry)) return undefined;
  }
  return undefined;
}

/** @param max the characters of arguments and results */
export function toEffectView(entry: JournalEntry, max: number): EffectView {
  const { claims, checkpoint, value, error, holes, idempotencyKey, question, ...rest } = entry;
  const { executedAt: _executedAt, answeredAt: _answeredAt, ...fields } = rest;
  const bound = (part: unknown): Json | undefined =>
    part === undefined ? undefined : boundJson(toWire(part), max).value;
  return omitUndefined({
    ...fields,
    key: keyOfEffect(entry),
    name: cut(fields.name, MAX_MESSAGE),
    arguments: bound(fields.arguments),
    value: bound(value),
    error: error && { name: error.name, message: cut(error.message, MAX_MESSAGE) },
    usage: fields.usage,
    epoch: claims.at(-1)?.epoch,
    seq: checkpoint?.seq,
    idempotencyKey,
    question,
    holes,
  });
}

export function toHoleView({ kind, turn, reason, checkpoint }: JournalHole): HoleView {
  return omitUndefined({ kind, turn, reason, seq: checkpoint?.seq });
}
