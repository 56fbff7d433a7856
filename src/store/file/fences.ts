/**
 * Fences decide which writes of a process that lost the lock are valid.
 *
 * A process that takes over the lock reads everything and adds a fence to the commit log: the number of the fence, and the
 * last commit that it accepted. Every commit contains the number of the newest fence that its writer knew. A commit that a
 * process writes after losing the lock has an older fence and a later number, so it is void, in whichever file it is.
 */
import type { CommitFooter } from "./lines.js";

/** A line of the commit log. Commits after `after` are void if their writer knew only older fences. */
export interface Fence {
  readonly fence: number;
  readonly after: number;
}

/** The fields of a commit that fences depend on. */
type FencedCommit = Pick<CommitFooter, "commit" | "fence">;

/** All fences of a store. */
export class Fences {
  /** In ascending order; each number occurs once. */
  readonly #fences: Fence[] = [];

  /** The number of the newest fence; 0 if there is none. */
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
    const existing = this.#fences[index];
    if (!existing) this.#fences.push({ fence, after });
    else if (existing.fence !== fence) this.#fences.splice(index, 0, { fence, after });
    else if (existing.after < after) this.#fences[index] = { fence, after };
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

  isVoid({ commit, fence = 0 }: FencedCommit): boolean {
    return commit > (this.lastCommitOf(fence) ?? Infinity);
  }

  /**
   * Derives missing fences from commits, for a store whose commit log is damaged: the first commit of a writer directly
   * follows those that it accepted.
   */
  derive(commits: Iterable<FencedCommit>): void {
    const firsts = new Map<number, number>();
    for (const { commit, fence = 0 } of commits) {
      if (fence > 0) firsts.set(fence, Math.min(firsts.get(fence) ?? Infinity, commit));
    }
    const existing = new Set(this.#fences.map(({ fence }) => fence));
    // The first commits of a writer may have been compacted, so a fence from the log is never changed here.
    for (const [fence, first] of firsts) if (!existing.has(fence)) this.add({ fence, after: first - 1 });
  }
}

/** The field by which lines of files and of the commit log identify their writer; omitted for 0. */
export function fenceField(fence: number): { readonly fence?: number } {
  return fence === 0 ? {} : { fence };
}
