/**
 * Decides which writes are valid of a process that lost the lock and may not have noticed yet.
 *
 * A process that takes over the lock reads everything and adds a fence to the list of commits: the number of the fence,
 * and the last commit that was accepted. Every commit contains the number of the newest fence that its writer knew. A commit
 * that a process writes after it was fenced off has an older fence and a later number, so it is void, in whichever file it is.
 */

/** A line of the list of commits. Commits after `after` are void if their writer knew only older fences. */
export interface Fence {
  readonly fence: number;
  readonly after: number;
}

/** The parts of a commit that matter for fences. */
interface Sealed {
  readonly commit: number;
  readonly fence?: number;
}

export class Fences {
  /** In order, each number once. */
  readonly #fences: Fence[] = [];

  /** The newest one; 0 if there is none. */
  get current(): number {
    return this.#fences.at(-1)?.fence ?? 0;
  }

  get all(): readonly Fence[] {
    return this.#fences;
  }

  /**
   * Adds a fence. If two have the same number, the one that accepts more commits is kept: the writer of the other one had
   * lost the lock itself, after it had read everything and before it added its fence.
   */
  add({ fence, after }: Fence): void {
    const index = this.#fences.findIndex((other) => other.fence >= fence);
    const known = this.#fences[index];
    if (!known) this.#fences.push({ fence, after });
    else if (known.fence !== fence) this.#fences.splice(index, 0, { fence, after });
    else if (known.after < after) this.#fences[index] = { fence, after };
  }

  /** The last valid commit of a writer that knew no newer fence than this one; `undefined` if there is no newer fence. */
  lastCommitOf(fence: number): number | undefined {
    if (fence >= this.current) return undefined;
    return this.#fences.find((other) => other.fence > fence)?.after;
  }

  /** The fence that the writer of a valid commit knew. */
  of(commit: number): number {
    const next = this.#fences.findIndex(({ after }) => after >= commit);
    return (next < 0 ? this.#fences.at(-1) : this.#fences[next - 1])?.fence ?? 0;
  }

  isVoid({ commit, fence = 0 }: Sealed): boolean {
    return commit > (this.lastCommitOf(fence) ?? Infinity);
  }

  /**
   * Derives fences from the commits, in case the list of commits is damaged: the first commit of a writer comes right after
   * those that it accepted.
   */
  derive(commits: Iterable<Sealed>): void {
    const firsts = new Map<number, number>();
    for (const { commit, fence = 0 } of commits) {
      if (fence > 0) firsts.set(fence, Math.min(firsts.get(fence) ?? Infinity, commit));
    }
    const known = new Set(this.#fences.map(({ fence }) => fence));
    // Its first commits may be packed by now, so a fence that is in the list is never changed here.
    for (const [fence, first] of firsts) if (!known.has(fence)) this.add({ fence, after: first - 1 });
  }
}
