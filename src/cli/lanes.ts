/** A checkpoint as the branch graph sees it. */
export interface LaneEntry {
  readonly id: string;
  readonly parentId: string | undefined;
}

/**
 * Draws branches as lanes, newest checkpoint first, like `git log --graph`. It works on a stream: its memory is one id
 * per lane, however long the history is.
 */
export class Lanes {
  /** The next checkpoint of each lane, from left to right. */
  #next: string[] = [];
  /** The index of a lane that has just ended. */
  #ended: number | undefined;

  /** Returns the lines before an entry, in which lanes meet or move, and the prefix of the entry itself. */
  draw(entry: LaneEntry): { readonly before: readonly string[]; readonly prefix: string } {
    const before: string[] = [];
    const ended = this.#ended;
    this.#ended = undefined;
    if (ended !== undefined && ended < this.#next.length) before.push(this.#moveLeft(ended));
    let lane = this.#next.indexOf(entry.id);
    // No lane waits for the head of a branch: it starts a new one.
    if (lane < 0) {
      lane = this.#next.push(entry.id) - 1;
      // Without a line between them, the first checkpoint of the lane that ended here would look like a child of this one.
      if (lane === ended) before.push("| ".repeat(lane).trimEnd());
    }
    // Lanes that wait for the same checkpoint join the leftmost of them.
    for (let other = this.#next.lastIndexOf(entry.id); other > lane; other = this.#next.lastIndexOf(entry.id)) {
      before.push(this.#join(lane, other));
      this.#next.splice(other, 1);
    }
    const prefix = this.#next.map((_, index) => (index === lane ? "*" : "|")).join(" ");
    if (entry.parentId === undefined) {
      this.#next.splice(lane, 1);
      this.#ended = lane;
    } else this.#next[lane] = entry.parentId;
    return { before, prefix };
  }

  /** The line in which lanes to the right of an ended one move left. */
  #moveLeft(ended: number): string {
    return this.#next
      .map((_, lane) => (lane < ended ? "| " : " /"))
      .join("")
      .trimEnd();
  }

  /** The line in which lane `from` joins lane `to`, and lanes to the right of `from` move left. */
  #join(to: number, from: number): string {
    const line = Array.from({ length: 2 * this.#next.length }, () => " ");
    for (let lane = 0; lane < this.#next.length; lane++) {
      if (lane < from) line[2 * lane] = "|";
      if (lane > to && lane < from) line[2 * lane - 1] = "_";
      if (lane >= from) line[2 * lane - 1] = "/";
    }
    return line.join("").trimEnd();
  }
}
