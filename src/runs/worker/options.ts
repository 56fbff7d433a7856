/** The options of a worker. */
import { type Duration, toMilliseconds, invalidArgument, validateOptions } from "../../util/index.js";

/** Options of `sp.worker()`. */
export interface WorkerOptions {
  /**
   * How many sessions the worker runs at once.
   * @default 10
   */
  readonly concurrency?: number;
  /**
   * The length of its leases: how long after its last renewal another process may claim its sessions. With a shorter lease,
   * sessions of a dead machine are resumed sooner, and a process that is frozen loses its sessions sooner.
   * @default the lease of the Savepoint
   */
  readonly lease?: Duration;
  /**
   * The name of the worker in messages.
   * @default host and process id
   */
  readonly name?: string;
  /**
   * How often the worker polls for work. If the store sends notifications, new work is found immediately, and polling only finds
   * sessions that wake up and missed notifications.
   * @default "1s"; "200ms" without notifications
   */
  readonly poll?: Duration;
  /**
   * How long sessions may take to finish their current step when the worker is stopped. After that they are released as they
   * are, and resume from their journal.
   * @default "30s"
   */
  readonly grace?: Duration;
  /**
   * How many processes may crash in a row in the same step of a session before the session is quarantined as `failed`.
   * @default 5
   */
  readonly maxCrashes?: number;
  /**
   * Stop on SIGTERM and SIGINT: sessions are released, the store is closed, and the signal then ends the process, unless the
   * process has a handler of its own.
   * @default true
   */
  readonly signals?: boolean;
}

/** Validated options, with durations in milliseconds. */
export type WorkerSettings = Required<Omit<WorkerOptions, "lease" | "poll" | "grace">> & {
  readonly lease: number;
  readonly poll: number;
  readonly grace: number;
};

/** Parses the options of a worker. */
export function parseWorkerOptions(
  options: WorkerOptions,
  defaults: { readonly lease: number; readonly name: string; readonly poll: number },
): WorkerSettings {
  validateOptions(options, "sp.worker");
  const { concurrency = 10, grace = 30_000, maxCrashes = 5, signals = true } = options;
  for (const [name, value] of Object.entries({ concurrency, maxCrashes })) {
    if (!Number.isInteger(value) || value < 1) {
      throw invalidArgument(`${name} must be a positive integer, got ${String(value)}.`);
    }
  }
  const lease = toMilliseconds(options.lease ?? defaults.lease, "lease");
  if (lease < 100) throw invalidArgument(`lease must be at least 100 ms, got ${lease} ms.`);
  return {
    concurrency,
    lease,
    name: options.name ?? defaults.name,
    poll: Math.max(10, toMilliseconds(options.poll ?? defaults.poll, "poll")),
    grace: toMilliseconds(grace, "grace"),
    maxCrashes,
    signals,
  };
}
