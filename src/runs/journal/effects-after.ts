/** The tool calls between a checkpoint and the head of a branch: what a run that continues from there may do again. */
import type { CheckpointRow } from "../../records/index.js";
import { type Heads, isIntact, type RowResult, type SessionReader } from "../../sessions/index.js";
import { toJson } from "../../state/index.js";
import { readCurrentSource, toSource } from "./effect-history.js";
import { EffectTracker, type EntrySource } from "./effect-tracker.js";
import { readEntryPages } from "./entry-pages.js";
import type { EffectSummary } from "./journal-entry.js";

/** The maximum length of the arguments in a summary. */
const MAX_ARGUMENTS = 200;

/** Lists the tool calls after `target`, oldest first. If it is on another branch, those after the last common checkpoint. */
export async function readEffectsAfter(
  reader: SessionReader,
  branch: string,
  heads: Heads,
  number: number,
  target: CheckpointRow,
): Promise<EffectSummary[]> {
  const head = heads.branch?.record.head;
  if (!head || heads.session?.record.number !== number) return [];
  const source = await readCurrentSource(reader, branch, heads);
  const { sources, from } = await sourcesAfter(reader, number, head, target);
  const tracker = new EffectTracker(reader, { values: MAX_ARGUMENTS }, false);
  const effects: EffectSummary[] = [];
  const collect = (listed: ReturnType<EffectTracker["add"]>): void => {
    for (const effect of listed) {
      if (effect.kind !== "tool") continue;
      const { name, callId, step, outcome, checkpoint } = effect;
      if (outcome !== "recorded" && outcome !== "unknown") continue;
      if (from && checkpoint?.seq === from.row?.seq) continue;
      const given = effect.arguments;
      const text = typeof given === "string" ? given : given === undefined ? "" : JSON.stringify(toJson(given));
      effects.push({ name, callId, arguments: text, step, seq: checkpoint?.seq, outcome });
    }
  };
  for (const each of [from, ...sources.reverse(), source]) {
    if (!each?.piece) continue;
    for await (const page of readEntryPages(reader, number, each.piece, { values: "arguments" }))
      collect(tracker.add(each, page));
  }
  collect(tracker.end(true));
  return effects;
}

/**
 * What the checkpoints after `target` list, newest first; and the entries of the step that the last common checkpoint is inside:
 * later entries contain only the numbers of effects that were started there.
 */
async function sourcesAfter(
  reader: SessionReader,
  number: number,
  head: CheckpointRow,
  target: CheckpointRow,
): Promise<{ readonly sources: EntrySource[]; readonly from: EntrySource | undefined }> {
  const sources: EntrySource[] = [];
  const mine = reader.lineage(number, head);
  const other = reader.lineage(number, target);
  let [a, b] = [await nextRow(mine), await nextRow(other)];
  while (a && a.seq !== b?.seq) {
    if (b && b.seq > a.seq) {
      b = await nextRow(other);
      continue;
    }
    const parent = await nextRow(mine);
    if (isIntact(a)) sources.push(toSource(a, parent && isIntact(parent) ? parent : undefined));
    a = parent;
  }
  const run = a && isIntact(a) && a.run?.midStep ? a.run : undefined;
  return { sources, from: run && { row: a as CheckpointRow, piece: run.journal, turn: run.turn } };
}

async function nextRow(rows: AsyncGenerator<RowResult>): Promise<RowResult | undefined> {
  const { done, value } = await rows.next();
  return done ? undefined : (value as RowResult);
}
