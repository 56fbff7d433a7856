/** How a worker works. */
import { SavepointError } from "../../errors.js";
import { type Duration, toMilliseconds } from "../../util/index.js";

export interface WorkerOptions {
  /**
   * How many sessions it works on at once.
   * @default 10
   */
  readonly concurrency?: number;
  /**
   * How long its sessions are left alone after its last sign of life. Shorter means that others take over sooner from a
   * machine that is gone, and that a process that is held up loses its sessions sooner.
   * @default that of the Savepoint
   */
  readonly lease?: Duration;
  /**
   * Names it in messages.
   * @default host and process
   */
  readonly name?: string;
  /**
   * How often it looks for work. Where the store can tell it of new work, it hears of that at once, and this is for what
   * sleeps and for what was missed.
   * @default "1s", or "200ms" where the store cannot
   */
  readonly poll?: Duration;
  /**
   * How long sessions get to come to the end of a step when the worker is stopped. After that they are handed back as they
   * are: others go on from what was recorded.
   * @default "30s"
   */
  readonly grace?: Duration;
  /**
   * So many processes may die in a row over the same step of a session, before it is put aside as `failed`.
   * @default 5
   */
  readonly maxDeaths?: number;
  /**
   * Stop on SIGTERM and SIGINT: sessions are handed back, the store is closed, and the signal then ends the process, unless
   * it listens to it itself.
   * @default true
   */
  readonly signals?: boolean;
}

/** Options, checked. */
export interface WorkerSettings {
  readonly concurrency: number;
  readonly lease: number;
  readonly name: string;
  readonly poll: number;
  readonly grace: number;
  readonly maxDeaths: number;
  readonly signals: boolean;
}

export function parseWorkerOptions(
  options: WorkerOptions,
  defaults: { readonly lease: number; readonly name: string; readonly poll: number },
): WorkerSettings {
  const { concurrency = 10, grace = 30_000, maxDeaths = 5, signals = true } = options;
  for (const [name, value] of Object.entries({ concurrency, maxDeaths })) {
    if (!Number.isInteger(value) || value < 1) {
      throw new SavepointError("INVALID_ARGUMENT", `${name} is ${String(value)}. Give a whole number above 0.`);
    }
  }
  const lease = toMilliseconds(options.lease ?? defaults.lease, "lease");
  if (lease < 100) throw new SavepointError("INVALID_ARGUMENT", `A lease of ${lease} ms is too short to be renewed.`);
  return {
    concurrency,
    lease,
    name: options.name ?? defaults.name,
    poll: Math.max(10, toMilliseconds(options.poll ?? defaults.poll, "poll")),
    grace: toMilliseconds(grace, "grace"),
    maxDeaths,
    signals,
  };
}
