/** What the list of commits says of the files. */
import { Fences } from "./fences.js";
import type { LogEntry, LogLine } from "./log-lines.js";

export class LogIndex {
  /** How each file stood after its commits, in order; of its newest generation only. */
  readonly files = new Map<string, LogEntry[]>();
  readonly removed = new Set<string>();
  readonly fences = new Fences();
  /** Did the last one to have the store open close it? */
  closed = false;
  lastCommit = 0;

  /** @param fence the newest fence in the part of the list before these lines */
  constructor(lines: readonly LogLine[], fence = 0) {
    let current = fence;
    for (const line of lines) {
      // After a fence, lines of a process that was fenced off only repeat what the new holder has added already.
      if (!("last" in line) && (line.fence ?? 0) < current) continue;
      this.closed = "closed" in line;
      if ("after" in line) {
        current = line.fence;
        this.fences.add(line);
      } else if ("last" in line) this.lastCommit = Math.max(this.lastCommit, line.last);
      else if ("closed" in line) this.#harden();
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
    const known = this.files.get(entry.file);
    if (known?.[0]?.generation === entry.generation) known.push(entry);
    else this.files.set(entry.file, [entry]);
  }

  /** Who closes a store has synced everything. */
  #harden(): void {
    for (const [file, entries] of this.files) {
      this.files.set(
        file,
        entries.map(({ soft: _soft, ...entry }) => entry),
      );
    }
  }
}
