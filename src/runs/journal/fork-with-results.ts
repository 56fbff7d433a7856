/** Forks a branch on which a tool of an earlier step has returned another result. */
import { invalidArgument } from "../../util/index.js";
import { SavepointError } from "../../errors.js";
import { checkRowExists, describeBranch, forkAt, type SessionReader } from "../../sessions/index.js";
import { emptyJournal, encodeJournal, journalKey, type CheckpointRow, tapeName } from "../../records/index.js";
import type { Shadow } from "../../state/index.js";
import { settleValue } from "./encoded-value.js";
import { RecordedEffects } from "./recorded-effects.js";
import { encodeEntries, type JournalOperation, readEntries } from "./entry.js";

/** New results, by the ids of their tool calls. */
type ReplacedResults = Readonly<Record<string, unknown>>;

/**
 * Creates a branch at the start of the step that led to a checkpoint. Its journal is that of the step, with some results
 * replaced. Effects that were started after a replaced result had been delivered are dropped, because they may depend on it.
 *
 * @returns the name of the branch
 */
export async function forkWithResults(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  name: string | undefined,
  results: ReplacedResults,
): Promise<string> {
  const { sessionId } = reader;
  const recorded = row.run?.journal;
  const { entries } = recorded ? await readEntries(reader, number, recorded) : { entries: [] };
  replaceResults(reader, row, entries, results);
  const boundary = row.run && (await reader.row(number, row.run.boundary));
  if (!boundary || "unreadable" in boundary) {
    throw new SavepointError(
      "CHECKPOINT_NOT_FOUND",
      `The checkpoint at which the step of ${sessionId}#${row.seq} started is no longer in the history: the strategy of the agent does not keep it. Use strategy "everyStep" to replace results of earlier steps.`,
    );
  }
  return forkAt(reader, number, boundary, name, (branch, tape) => {
    // Encoded in every attempt, because an encoded value is bound to its place on a tape.
    const { items, blobs } = encodeEntries(replaceResults(reader, row, entries, results), tape, 0);
    const journal = encodeJournal({ ...emptyJournal(number, tape, boundary.seq), count: items.length });
    return {
      checks: [checkRowExists(number, row.seq)],
      puts: [{ key: journalKey(sessionId, branch), value: journal }],
      items: items.length > 0 ? [{ tape: tapeName(number, tape), first: 0, items }] : [],
      blobs,
    };
  });
}

function replaceResults(
  reader: SessionReader,
  row: CheckpointRow,
  entries: readonly JournalOperation[],
  results: ReplacedResults,
): readonly JournalOperation[] {
  const { registry } = reader.context;
  const effects = [...new RecordedEffects(entries).byIndex.values()];
  const answered = effects.filter(({ started, outcome }) => started.kind === "tool" && outcome !== undefined);
  const missing = Object.keys(results).find((id) => !answered.some(({ started }) => started.callId === id));
  if (missing !== undefined) {
    const known = answered.map(({ started }) => JSON.stringify(started.callId)).join(", ") || "none";
    throw invalidArgument(
      `${describeBranch(reader.sessionId, row.branch)} has no result of a tool call ${JSON.stringify(missing)} in the step that led to #${row.seq}. Tool calls with results: ${known}.`,
    );
  }
  const isReplaced = (callId: string | undefined): boolean => callId !== undefined && Object.hasOwn(results, callId);
  const firstOrder = Math.min(...answered.flatMap(({ started, order }) => (isReplaced(started.callId) ? [order] : [])));
  const outcomeOf = (callId: string): { value: Shadow } => ({
    value: settleValue(results[callId], registry),
  });
  const byIndex = new Map(effects.map((effect) => [effect.index, effect]));
  return entries.flatMap((entry): JournalOperation[] => {
    const effect = byIndex.get(entry.index);
    const callId = effect?.started.callId;
    const isDropped = (effect?.started.delivered ?? 0) > firstOrder;
    if (entry.op === "end" && callId !== undefined && isReplaced(callId)) {
      const outcome = outcomeOf(callId);
      if (!isDropped) return [{ ...entry, outcome }];
      // The step may not make this call again. If it does, it gets this result.
      return effect ? [{ op: "kept", index: entry.index, started: effect.started, outcome }] : [];
    }
    return isDropped ? [] : [entry];
  });
}
