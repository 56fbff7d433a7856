/** What happened between a checkpoint and its parent, from the entries that the checkpoint lists. */
import { entriesSince, type CheckpointInfo, type CheckpointRow, type Usage } from "../../records/index.js";
import { type Heads, isIntact, type SessionReader } from "../../sessions/index.js";
import { findReplyText } from "./reply-text.js";
import { decodePage, type EntryResult } from "./entry-pages.js";
import { toSource } from "./effect-history.js";
import { EffectTracker } from "./effect-tracker.js";
import type { Piece } from "../../state/index.js";

/** A checkpoint, and what happened since its parent. */
export interface CheckpointActivity extends CheckpointInfo {
  /** `undefined` if no effects are recorded for it. */
  readonly activity:
    | {
        /** The tools that were called, in the order of their calls. */
        readonly tools: readonly {
          readonly name: string;
          readonly callId: string | undefined;
          readonly outcome: string;
        }[];
        /** The beginning of the last reply of the model. */
        readonly reply: string | undefined;
        readonly usage: Usage | undefined;
        /** Milliseconds in which at least one model, tool or other effect was executed: not those of questions and sleeps. */
        readonly duration: number | undefined;
        /** The number of effects; a lower bound if `isPartial`. */
        readonly effects: number;
        /** Whether not all entries were read, because there are many or some are damaged. */
        readonly isPartial: boolean;
      }
    | undefined;
}

type Activity = CheckpointActivity["activity"];

/** Items that are read for one checkpoint. */
const MAX_ITEMS = 256;
/** Checkpoints whose entries are read with one request. */
const PAGE = 32;
const MAX_REPLY = 200;

/** Adds what happened to the checkpoints of a history, in their order. Reads page by page. */
export async function* readActivities(
  reader: SessionReader,
  readHeads: () => Promise<Heads>,
  history: AsyncIterable<CheckpointInfo>,
): AsyncGenerator<CheckpointActivity> {
  let page: CheckpointInfo[] = [];
  let heads: Heads | undefined;
  for await (const info of history) {
    heads ??= await readHeads();
    page.push(info);
    if (page.length < PAGE) continue;
    yield* await describePage(reader, heads, page);
    page = [];
  }
  if (heads) yield* await describePage(reader, heads, page);
}

async function describePage(
  reader: SessionReader,
  heads: Heads,
  infos: readonly CheckpointInfo[],
): Promise<CheckpointActivity[]> {
  const number = heads.session?.record.number;
  if (number === undefined || infos.length === 0) return [];
  const rows = new Map<number, CheckpointRow>();
  const load = async (seqs: readonly number[]): Promise<void> => {
    const missing = [...new Set(seqs)].filter((seq) => !rows.has(seq));
    for (const row of await reader.rows(number, missing)) if (isIntact(row)) rows.set(row.seq, row);
  };
  // A hidden head has no row.
  const head = heads.branch?.record.head;
  if (head) rows.set(head.seq, head);
  await load(infos.map(({ seq }) => seq));
  await load(infos.flatMap(({ seq }) => rows.get(seq)?.parent ?? []));
  const sources = infos.map(({ seq }) => {
    const row = rows.get(seq);
    const parent = row?.parent === undefined ? undefined : rows.get(row.parent);
    const piece = row && entriesSince(row, parent);
    return row && piece
      ? { source: toSource(row, parent), piece: lastItems(piece), isCut: piece.count > MAX_ITEMS }
      : undefined;
  });
  const state = reader.stateReader(number);
  const items = await state.items(sources.flatMap((each) => (each ? [each.piece] : [])));
  let next = 0;
  const activities: Activity[] = [];
  for (const each of sources) {
    if (!each) {
      activities.push(undefined);
      continue;
    }
    const { source, piece, isCut } = each;
    const results = await decodePage(piece, items.slice(next, (next += piece.count)), state, { values: "all" });
    // A range that is cut may begin inside an entry.
    const intact: EntryResult[] = results.filter((result) => "entry" in result);
    const tracker = new EffectTracker(reader, {}, false);
    const listed = [...tracker.add(source, intact), ...tracker.end()];
    activities.push(summarize(listed, isCut || intact.length < results.length));
  }
  return infos.map((info, index) => ({ ...info, activity: activities[index] }));
}

function lastItems({ tape, start, count }: Piece): Piece {
  const kept = Math.min(count, MAX_ITEMS);
  return { tape, start: start + count - kept, count: kept };
}

function summarize(listed: ReturnType<EffectTracker["add"]>, isPartial: boolean): Activity {
  const effects = listed.flatMap((entry) => (entry.kind === "hole" ? [] : [entry]));
  if (effects.length === 0 && !isPartial) return undefined;
  const tools = effects
    .filter(({ kind }) => kind === "tool")
    .map(({ name, callId, outcome }) => ({ name, callId, outcome: outcome as string }));
  const reply = effects.filter(({ kind, outcome }) => kind === "llm" && outcome === "recorded").at(-1);
  const used = effects.flatMap(({ usage }) => (usage ? [usage] : []));
  const total = (field: keyof Usage): number => used.reduce((sum, usage) => sum + (usage[field] ?? 0), 0);
  const timed = effects.filter(({ kind, duration }) => duration !== undefined && kind !== "ask" && kind !== "sleep");
  return {
    tools,
    reply: reply && findReplyText(reply.value)?.slice(0, MAX_REPLY),
    usage: used.length > 0 ? { tokens: total("tokens"), cost: total("cost") } : undefined,
    duration: timed.length > 0 ? timeIn(timed) : undefined,
    effects: effects.length,
    isPartial,
  };
}

/** How long at least one of the effects was executed. The time between them, in which the process may have been dead, does not count. */
function timeIn(effects: readonly { readonly startedAt: number; readonly duration: number | undefined }[]): number {
  let [total, end] = [0, 0];
  for (const { startedAt, duration = 0 } of [...effects].sort((a, b) => a.startedAt - b.startedAt)) {
    const from = Math.max(startedAt, end);
    end = Math.max(end, startedAt + duration);
    total += Math.max(0, end - from);
  }
  return total;
}
