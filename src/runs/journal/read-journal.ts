/** What a step has recorded, for people: one line for each effect. */
import { decodeJournal, journalKey, type Usage } from "../../records/index.js";
import type { EffectKind } from "../../events/index.js";
import { readBranchStatuses } from "../status/index.js";
import type { SessionReader } from "../../sessions/index.js";
import { SavepointError } from "../../errors.js";
import { shadowToValue } from "../../state/index.js";
import { type JournalOperation, readEntries, type EffectStart } from "./entry.js";

/** An effect of the current step. */
export interface JournalEntry {
  /** Its place among the effects of the step, by when they began. */
  readonly index: number;
  readonly kind: EffectKind;
  readonly name: string;
  /** The id of the tool call. */
  readonly callId: string | undefined;
  /** What a tool was given. */
  readonly arguments: unknown;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /**
   * `recorded`: it is done, and will not be done again. `failed`: it has thrown, and that is recorded. `running`: it is
   * under way. `unknown`: whoever did it is gone, and nobody knows whether it happened. `again`: somebody said that it did
   * not happen, or it is to be tried once more.
   */
  readonly outcome: "recorded" | "failed" | "running" | "unknown" | "again";
  /** What it returned. */
  readonly value: unknown;
  readonly error: { readonly name: string; readonly message: string } | undefined;
  readonly usage: Usage | undefined;
  /** When a sleep is over, in milliseconds since 1970. */
  readonly until: number | undefined;
}

/** Reads the journal of a branch. Damage is `DAMAGED`: nobody could tell what was done. */
export async function* readJournal(reader: SessionReader, branch: string): AsyncGenerator<JournalEntry> {
  const { store } = reader.context;
  const heads = await reader.heads(branch);
  const number = heads.session?.record.number;
  const [record] = await store.get([journalKey(reader.sessionId, branch)]);
  if (!record || number === undefined) return;
  if (!("value" in record)) {
    throw new SavepointError(
      "DAMAGED",
      `What session ${JSON.stringify(reader.sessionId)} has recorded cannot be read: ${record.unreadable}.`,
    );
  }
  const { tape, first, count, number: of } = decodeJournal(record.value);
  if (of !== number) return;
  const { entries } = await readEntries(reader, number, { tape, start: first, count });
  const [standing] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
  const open = standing?.status === "running" ? "running" : "unknown";
  const byIndex = new Map<number, JournalOperation[]>();
  for (const entry of entries) byIndex.set(entry.index, [...(byIndex.get(entry.index) ?? []), entry]);
  for (const [index, own] of [...byIndex].sort(([a], [b]) => a - b)) {
    const started = own.flatMap((entry) => ("started" in entry && entry.started ? [entry.started] : [])).at(-1);
    const last = own.at(-1);
    if (started && last) yield toJournalEntry(index, started, last, open, reader);
  }
}

function toJournalEntry(
  index: number,
  started: EffectStart,
  last: JournalOperation,
  open: "running" | "unknown",
  { context: { registry } }: SessionReader,
): JournalEntry {
  const { kind, name, callId, args, at, until } = started;
  const outcome = "outcome" in last ? last.outcome : undefined;
  const error = outcome && "error" in outcome ? outcome.error : undefined;
  // A sleep and a question do nothing outside: there is nothing to be unknown.
  const idle = kind === "sleep" || kind === "ask";
  return {
    index,
    kind,
    name,
    callId,
    // Of what a model was given only the hash is kept.
    arguments: kind === "llm" || args === undefined ? undefined : shadowToValue(args, registry),
    startedAt: at,
    outcome: outcome ? (error ? "failed" : "recorded") : last.op === "again" ? "again" : idle ? "running" : open,
    value: outcome && "value" in outcome ? shadowToValue(outcome.value, registry) : undefined,
    error: error && { name: error.name, message: error.message },
    usage: "usage" in last ? last.usage : undefined,
    until,
  };
}
