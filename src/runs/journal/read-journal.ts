/** Lists the journal of a branch for people: one entry for each effect of the current step. */
import { decodeJournal, journalKey, type Usage } from "../../records/index.js";
import type { EffectKind } from "../../events/index.js";
import { readBranchStatuses } from "../status/index.js";
import type { SessionReader } from "../../sessions/index.js";
import { SavepointError } from "../../errors.js";
import { shadowToValue } from "../../state/index.js";
import { type JournalOperation, readEntries, type EffectStart } from "./entry.js";

/** An effect of the current step. */
export interface JournalEntry {
  /** Its number among the effects of the step, in the order of their starts, from 0. */
  readonly index: number;
  readonly kind: EffectKind;
  readonly name: string;
  /** The id of the tool call. */
  readonly callId: string | undefined;
  /** The arguments of a tool. */
  readonly arguments: unknown;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /**
   * `recorded`: it has returned, and is not executed again. `failed`: it has thrown, and the error is recorded. `running`: it
   * is in progress. `unknown`: its process has died, and whether it happened is unknown. `again`: it is executed again,
   * because it failed or a person answered that it did not happen.
   */
  readonly outcome: "recorded" | "failed" | "running" | "unknown" | "again";
  /** The value that it returned. */
  readonly value: unknown;
  readonly error: { readonly name: string; readonly message: string } | undefined;
  readonly usage: Usage | undefined;
  /** When a sleep ends, in milliseconds since 1970. */
  readonly until: number | undefined;
}

/** Reads the journal of a branch. Throws `DAMAGED` if any of it is unreadable. */
export async function* readJournal(reader: SessionReader, branch: string): AsyncGenerator<JournalEntry> {
  const { store } = reader.context;
  const heads = await reader.heads(branch);
  const number = heads.session?.record.number;
  const [record] = await store.get([journalKey(reader.sessionId, branch)]);
  if (!record || number === undefined) return;
  if (!("value" in record)) {
    throw new SavepointError(
      "DAMAGED",
      `The journal of session ${JSON.stringify(reader.sessionId)} is damaged: ${record.unreadable}. Run \`savepoint verify\` for details.`,
    );
  }
  const { tape, first, count, number: ofSession } = decodeJournal(record.value);
  if (ofSession !== number) return;
  const { entries } = await readEntries(reader, number, { tape, start: first, count });
  const [status] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
  const open = status?.status === "running" ? "running" : "unknown";
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
  // A sleep and a question have no effect on the outside world, so their outcome is never unknown.
  const idle = kind === "sleep" || kind === "ask";
  return {
    index,
    kind,
    name,
    callId,
    // Only the hash of a model's input is stored.
    arguments: kind === "llm" || args === undefined ? undefined : shadowToValue(args, registry),
    startedAt: at,
    outcome: outcome ? (error ? "failed" : "recorded") : last.op === "again" ? "again" : idle ? "running" : open,
    value: outcome && "value" in outcome ? shadowToValue(outcome.value, registry) : undefined,
    error: error && { name: error.name, message: error.message },
    usage: "usage" in last ? last.usage : undefined,
    until,
  };
}
