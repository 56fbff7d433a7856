/** Where the checkpoints of a session are in its branch graph. Pure: rows in, lanes out. */

/** A checkpoint as the graph needs it. */
export interface GraphNode {
  readonly seq: number;
  /** The seq of its parent; -1 without one. */
  readonly parent: number;
}

/** How a row of the graph is drawn, from left to right. */
export interface LaneRow {
  readonly lane: number;
  /** Other lanes that pass through the row. */
  readonly through: readonly number[];
  /** Lanes that end in this checkpoint: branches that were forked from it. */
  readonly joins: readonly number[];
  /** Whether a child is above it, in the same lane. */
  readonly hasChild: boolean;
  readonly hasParent: boolean;
  /** Whether it is an ancestor of the head of a branch. The others were removed from their branches by rewinds. */
  readonly isLive: boolean;
  /** Lanes whose line above its point comes from a checkpoint that is not live. */
  readonly faded: readonly number[];
}

/** Further lanes are not drawn. */
export const MAX_LANES = 12;

/** Assigns lanes, newest checkpoint first. A lane leads from a checkpoint down to its parent. @param heads seqs of the heads of branches */
export function layOut(nodes: Iterable<GraphNode>, heads: Iterable<number>): LaneRow[] {
  /** For each lane, the seq that it leads to. */
  const targets: (number | undefined)[] = [];
  /** For each lane, whether its line comes from a checkpoint that is not live. */
  const isFaded: boolean[] = [];
  const live = new Set(heads);
  const rows: LaneRow[] = [];
  for (const { seq, parent } of nodes) {
    const ending: number[] = [];
    const through: number[] = [];
    let free = -1;
    for (let lane = 0; lane < targets.length; lane++) {
      const target = targets[lane];
      // A parent that was pruned has no row: its lane has ended.
      if (target !== undefined && target > seq) targets[lane] = undefined;
      if (targets[lane] === undefined) {
        if (free < 0) free = lane;
      } else if (target === seq) ending.push(lane);
      else if (lane < MAX_LANES) through.push(lane);
    }
    const [first, ...joins] = ending;
    const faded = [...through, ...ending].filter((each) => isFaded[each]);
    const lane = first ?? (free < 0 ? targets.length : free);
    for (const each of joins) targets[each] = undefined;
    targets[lane] = parent >= 0 ? parent : undefined;
    while (targets.length > 0 && targets.at(-1) === undefined) targets.pop();
    const isLive = live.delete(seq);
    if (isLive && parent >= 0) live.add(parent);
    isFaded[lane] = !isLive;
    rows.push({ lane, through, joins, hasChild: first !== undefined, hasParent: parent >= 0, isLive, faded });
  }
  return rows;
}
