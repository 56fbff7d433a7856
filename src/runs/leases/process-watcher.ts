/**
 * Watches the pids of the processes on this host that run sessions. The death of one is detected within a tick of the worker,
 * regardless of the length of its lease, and without a query to the store.
 *
 * Workers learn of a process from its record, and from the notification of its first claim ({@link formatAnnouncement}).
 */
import { isCertainlyDead, sharesPidNamespace, type ProcessIdentity, thisProcess } from "../../util/index.js";

/** Up to this many processes are checked in every tick, up to twice as many in every second tick, and so on. */
const PER_TICK = 64;

export class ProcessWatcher {
  /** By the owner ids of their leases. */
  readonly #processes = new Map<string, { readonly process: ProcessIdentity; readonly generation: number }>();
  #generation = 0;
  #ticks = 0;

  /** Watches a process, if its pid is valid in this process. */
  watch(owner: string, process: ProcessIdentity): void {
    // This process need not watch itself: all its leases end with it.
    const isThis = process.pid === thisProcess().pid && process.start === thisProcess().start;
    if (isThis || !sharesPidNamespace(process)) return;
    this.#processes.set(owner, { process, generation: this.#generation });
  }

  /** Watches these processes, and stops watching those that are missing from two calls in a row: their leases have ended. */
  watchAll(owners: ReadonlyMap<string, { readonly process: ProcessIdentity }>): void {
    this.#generation++;
    for (const [owner, { process }] of owners) this.watch(owner, process);
    for (const [owner, { generation }] of this.#processes) {
      if (generation < this.#generation - 1) this.#processes.delete(owner);
    }
  }

  /** Returns the owners whose processes have died since the last call. Each is returned once. Called in every tick. */
  collectDead(): string[] {
    if (this.#ticks++ % Math.max(1, Math.ceil(this.#processes.size / PER_TICK)) !== 0) return [];
    const dead: string[] = [];
    for (const [owner, { process }] of this.#processes) {
      if (!isCertainlyDead(process)) continue;
      this.#processes.delete(owner);
      dead.push(owner);
    }
    return dead;
  }
}

/** The prefix of announcements. No agent's name starts with it, because names contain no control characters. */
const MARK = "\u0001";

/** The notification that the first claim of a process sends to the workers on its host. */
export function formatAnnouncement(owner: string): string {
  const { host, pid, boot = "", namespace = "", start = "" } = thisProcess();
  return MARK + [owner, pid, boot, namespace, start, host].join("\t");
}

/** The owner that a notification announces; `undefined` for other notifications. */
export function parseAnnouncement(name: string): { owner: string; process: ProcessIdentity } | undefined {
  if (!name.startsWith(MARK)) return undefined;
  const [owner = "", pid, boot, namespace, start, host = ""] = name.slice(MARK.length).split("\t");
  const process = {
    host,
    pid: Number(pid),
    boot: boot || undefined,
    namespace: namespace || undefined,
    start: start || undefined,
  };
  return { owner, process };
}
