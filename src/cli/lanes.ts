/**
 * Branches drawn as lanes, newest first, like git draws them. It works on a stream: all that it remembers is which
 * checkpoint each lane waits for.
 */
export interface LaneEntry {
  readonly id: string;
  readonly parentId: string | undefined;
}

export class Lanes {
  /** The id that each lane comes to next, from left to right. */
  #waiting: string[] = [];
  /** The lane that has just ended, where others right of it move up. */
  #ended: number | undefined;

  /** The lines before the entry, where lanes meet; and what stands before the entry itself. */
  draw(entry: LaneEntry): { readonly before: readonly string[]; readonly prefix: string } {
    const before: string[] = [];
    if (this.#ended !== undefined) before.push(this.#moveUp(this.#ended));
    this.#ended = undefined;
    let lane = this.#waiting.indexOf(entry.id);
    // Something that nothing follows: the head of a branch.
    if (lane < 0) lane = this.#waiting.push(entry.id) - 1;
    // Lanes that come to the same checkpoint meet in the leftmost of them.
    for (let other = this.#waiting.lastIndexOf(entry.id); other > lane; other = this.#waiting.lastIndexOf(entry.id)) {
      before.push(this.#join(lane, other));
      this.#waiting.splice(other, 1);
    }
    const prefix = this.#waiting.map((_, index) => (index === lane ? "*" : "|")).join(" ");
    if (entry.parentId === undefined) {
      this.#waiting.splice(lane, 1);
      if (lane < this.#waiting.length) this.#ended = lane;
    } else this.#waiting[lane] = entry.parentId;
    return { before, prefix };
  }

  /** Lanes right of one that has ended take its place. */
  #moveUp(ended: number): string {
    return this.#waiting
      .map((_, lane) => (lane < ended ? "| " : " /"))
      .join("")
      .trimEnd();
  }

  /** A lane that goes over to one left of it; those right of it move up. */
  #join(to: number, from: number): string {
    const line = Array.from({ length: 2 * this.#waiting.length }, () => " ");
    for (let lane = 0; lane < this.#waiting.length; lane++) {
      if (lane < from) line[2 * lane] = "|";
      if (lane > to && lane < from) line[2 * lane - 1] = "_";
      if (lane >= from) line[2 * lane - 1] = "/";
    }
    return line.join("").trimEnd();
  }
}
