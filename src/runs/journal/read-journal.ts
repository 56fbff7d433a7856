/** Lists the journal of a branch for people: the effects of the current step, or of all steps. */
import { decodeJournal, journalKey } from "../../records/index.js";
import { readBranchStatuses } from "../status/index.js";
import type { Heads, SessionReader } from "../../sessions/index.js";
import { SavepointError } from "../../errors.js";
import { limitEntries } from "../../util/index.js";
import { readEffectHistory } from "./effect-history.js";
import { type JournalOperation, readEntries } from "./entry.js";
import {
  describeEffect,
  type JournalEntry,
  type JournalHole,
  type JournalOptions,
  parseJournalOptions,
} from "./journal-entry.js";

/**
 * Reads the journal of a branch. Without `all`, throws `DAMAGED` if any of it is unreadable; with `all`, damaged entries are
 * holes.
 */
export async function* readJournal(
  reader: SessionReader,
  branch: string,
  options: JournalOptions = {},
  readHeads: () => Promise<Heads> = () => reader.heads(branch),
): AsyncGenerator<JournalEntry | JournalHole> {
  const parsed = parseJournalOptions(options);
  const heads = await readHeads();
  const entries = parsed.all
    ? readEffectHistory(reader, branch, heads, parsed)
    : readCurrentStep(reader, branch, heads, parsed);
  yield* parsed.limit === undefined ? entries : limitEntries(entries, parsed.limit);
}

async function* readCurrentStep(
  reader: SessionReader,
  branch: string,
  heads: Heads,
  { values = "full" }: JournalOptions,
): AsyncGenerator<JournalEntry> {
  const { store, registry } = reader.context;
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
  const turn = heads.branch?.record.head?.run?.turn ?? 0;
  const byIndex = new Map<number, { operations: JournalOperation[]; step: number | undefined; worker?: string }>();
  let [step, worker]: [number | undefined, string | undefined] = [undefined, undefined];
  for (const entry of entries) {
    if (entry.mark) [step, worker] = [entry.mark.step, entry.worker];
    const effect = byIndex.get(entry.index) ?? { operations: [], step };
    effect.operations.push(entry);
    byIndex.set(entry.index, { ...effect, ...(worker !== undefined && { worker }) });
  }
  for (const [index, effect] of [...byIndex].sort(([a], [b]) => a - b)) {
    const around = { registry, open, values, turn, step: effect.step, worker: effect.worker, holes: [] } as const;
    const entry = describeEffect(index, effect.operations, { ...around, checkpoint: undefined });
    if (entry) yield entry;
  }
}
