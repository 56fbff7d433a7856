/** Lists the journal of a branch for people: the effects of the current step, or of all steps. */
import { decodeJournal, journalKey } from "../../records/index.js";
import { readBranchStatuses } from "../status/index.js";
import type { Heads, SessionReader } from "../../sessions/index.js";
import { SavepointError } from "../../errors.js";
import { limitEntries } from "../../util/index.js";
import { readEffectHistory } from "./effect-history.js";
import { CallCounter, EffectRecord, type EntryClaim } from "./effect-record.js";
import { describeCurrentStep } from "./current-step.js";
import { readEntries } from "./entry.js";
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
  const journal = decodeJournal(record.value);
  const { tape, first, count, number: ofSession } = journal;
  if (ofSession !== number) return;
  const { entries } = await readEntries(reader, number, { tape, start: first, count });
  const [status] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
  const open = status?.status === "running" ? "running" : "unknown";
  const turn = heads.branch?.record.head?.run?.turn ?? 0;
  const inStep = describeCurrentStep(reader.sessionId, heads, journal, status);
  const byIndex = new Map<number, { record: EffectRecord; step: number | undefined; worker: string | undefined }>();
  const calls = new CallCounter();
  let step: number | undefined;
  let claim: EntryClaim | undefined;
  for (const entry of entries) {
    if (entry.mark) [step, claim] = [entry.mark.step, { epoch: entry.mark.epoch, worker: entry.worker }];
    const known = byIndex.get(entry.index);
    const effect = known ?? { record: new EffectRecord(entry.index, calls.next(entry)), step, worker: undefined };
    effect.record.add(entry, claim);
    byIndex.set(entry.index, { ...effect, worker: claim?.worker ?? effect.worker });
  }
  for (const [, { record: effect, ...fields }] of [...byIndex].sort(([a], [b]) => a - b)) {
    const around = { registry, open, values, turn, holes: [], inStep, checkpoint: undefined } as const;
    const entry = describeEffect(effect, { ...around, ...fields });
    if (entry) yield entry;
  }
}
