/**
 * Pages of the journal of a branch, newest first, in complete steps. A cursor is the seq of the checkpoint from which on the next
 * page lists effects, so it never expires; a page begins anew if the branch was moved meanwhile.
 */
import type { Json, JournalEntry, JournalHole, Savepoint } from "../../index.js";
import type { EffectView, HoleView } from "../api.js";
import { badRequest } from "../http/errors.js";
import { toWire } from "../http/responses.js";
import { boundJson } from "./bounded-json.js";
import { cut, omitUndefined } from "./views.js";

/** The most effects of a page, even if the step has more. */
const MAX_EFFECTS = 5000;
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
  const { session, branch, cursor, limit, values } = request;
  const from = cursor === undefined ? undefined : parseCursor(cursor);
  const entries: (JournalEntry | JournalHole)[] = [];
  let last: JournalEntry | undefined;
  let older: JournalEntry | undefined;
  let isCut = false;
  let isMore = false;
  const options = { branch, all: true, order: "newest", values: values === 0 ? "none" : values } as const;
  for await (const entry of sp.journal(session, { ...options, ...(from && { from }) })) {
    const isNewStep = entry.kind !== "hole" && last !== undefined && !isSameStep(last, entry);
    isCut = entries.length >= MAX_EFFECTS && !isNewStep;
    if ((entries.length >= limit && isNewStep) || isCut) {
      if (isNewStep) older = entry;
      isMore = true;
      break;
    }
    entries.push(entry);
    if (entry.kind !== "hole") last = entry;
  }
  const next = isMore ? await findNext(sp, request, entries) : undefined;
  return { entries, older, next: next === cursor ? undefined : next, isCut };
}

export function isSameStep(a: Pick<JournalEntry, "turn" | "step">, b: Pick<JournalEntry, "turn" | "step">): boolean {
  return a.turn === b.turn && a.step === b.step;
}

/** The seq of the checkpoint before those that list the effects of a page. */
async function findNext(
  sp: Savepoint,
  { session, branch }: JournalRequest,
  entries: readonly (JournalEntry | JournalHole)[],
): Promise<string | undefined> {
  const seqs = entries.flatMap(({ checkpoint }) => (checkpoint ? [checkpoint.seq] : []));
  const handle = sp.session(session, { branch });
  // The effects of the current step have no checkpoint yet: those before them begin with the head.
  if (seqs.length === 0) return (await handle.head())?.seq.toString();
  const [, parent] = await handle.history({ from: { seq: Math.min(...seqs) }, limit: 2 }).all();
  return parent?.seq.toString();
}

function parseCursor(cursor: string): { readonly seq: number } {
  if (!/^\d{1,15}$/.test(cursor)) throw badRequest(`${JSON.stringify(cursor)} is not a cursor of the journal.`);
  return { seq: Number(cursor) };
}

/** Identifies an effect; the seq of the checkpoint that lists it comes first, so that it is found again. */
export function keyOfEffect({ checkpoint, turn, step, index, startedAt }: JournalEntry): string {
  return [checkpoint?.seq ?? "", turn, step ?? "", index, startedAt].join(".");
}

/** Finds an effect by its key; `undefined` if there is none any more. */
export async function findEffect(
  sp: Savepoint,
  session: string,
  branch: string,
  key: string,
): Promise<JournalEntry | undefined> {
  const [seq = "", ...rest] = key.split(".");
  if (rest.length !== 4 || !/^[\d.]*$/.test(key))
    throw badRequest(`${JSON.stringify(key)} is not the key of an effect.`);
  const from = seq === "" ? {} : { from: { seq: Number(seq) } };
  let [read, first]: [number, JournalEntry | undefined] = [0, undefined];
  for await (const entry of sp.journal(session, { branch, all: true, order: "newest", ...from })) {
    if (entry.kind === "hole") continue;
    if (keyOfEffect(entry).split(".").slice(1).join(".") === rest.join(".")) return entry;
    first ??= entry;
    // It is in the newest step, or in one that has just ended.
    if (++read >= MAX_EFFECTS && !isSameStep(first, entry)) return undefined;
  }
  return undefined;
}

/** @param max the characters of arguments and results */
export function toEffectView(entry: JournalEntry, max: number): EffectView {
  const { claims, checkpoint, value, error, holes, idempotencyKey, question, executedAt: _, ...fields } = entry;
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
