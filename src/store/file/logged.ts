/** What the list of commits says of the files. */
import type { LogEntry, LogLine } from "./log-lines.js";

export class Logged {
  /** How each file stood after its commits, in order; of its newest generation only. */
  readonly files = new Map<string, LogEntry[]>();
  readonly removed = new Set<string>();
  /** Did the last one to have the store open close it? */
  closed = false;
  lastCommit = 0;

  constructor(lines: readonly LogLine[]) {
    for (const line of lines) {
      this.closed = "closed" in line;
      if ("closed" in line) this.#harden();
      else if ("last" in line) this.lastCommit = Math.max(this.lastCommit, line.last);
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
