/** The lines of the commit log by file, without those of writers that were fenced off. */
import type { LogEntry, LogLine } from "./commit-log.js";
import { Fences } from "./fences.js";

export class LogIndex {
  /** The entries of each file, in order; only those of its newest generation. */
  readonly files = new Map<string, LogEntry[]>();
  readonly removed = new Set<string>();
  readonly fences = new Fences();
  /** Whether the last process that had the store open has closed it. */
  isClosed = false;
  lastCommit = 0;

  /** @param fence the newest fence in the part of the log before these lines */
  constructor(lines: readonly LogLine[], fence = 0) {
    let current = fence;
    for (const line of lines) {
      // After a fence, lines of a writer that was fenced off repeat what the new holder of the lock has already added.
      if (!("last" in line) && (line.fence ?? 0) < current) continue;
      this.isClosed = "closed" in line;
      if ("after" in line) {
        current = line.fence;
        this.fences.add(line);
      } else if ("last" in line) this.lastCommit = Math.max(this.lastCommit, line.last);
      else if ("closed" in line) this.#markSynced();
      else this.#add(line);
    }
  }

  #add(entry: LogEntry): void {
    this.lastCommit = Math.max(this.lastCommit, entry.commit);
    this.removed.delete(entry.file);
    if (entry.removed) {
      this.removed.add(entry.file);
      this.files.delete(entry.file);
      return;
    }
    const entries = this.files.get(entry.file);
    if (entries?.[0]?.generation === entry.generation) entries.push(entry);
    else this.files.set(entry.file, [entry]);
  }

  /** Closing a store syncs all of its files. */
  #markSynced(): void {
    for (const [file, entries] of this.files) {
      this.files.set(
        file,
        entries.map(({ soft: _soft, ...entry }) => entry),
      );
    }
  }
}
