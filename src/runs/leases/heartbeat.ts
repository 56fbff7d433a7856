/**
 * Renews the lease of its process in a thread, however busy the event loop of the process is. Messages start, stop and close
 * it. The store is opened for the first renewal, because most runs end before that.
 */
import type { MessagePort } from "node:worker_threads";
import type { Store, StoreOptions } from "../../store/index.js";
import type { PackagePaths, thisProcess } from "../../util/index.js";
import { elapsedBetween, type Moment, systemMoment } from "./moment.js";
import { renewLease } from "./renew-lease.js";

/** The URL and the options with which another thread can open the same store. */
export interface StoreAddress {
  readonly url: string;
  readonly options: StoreOptions;
}

/** The parameters of the thread. */
export interface HeartbeatOptions extends StoreAddress {
  /** The key of the owner record. */
  readonly key: string;
  /** The length of a lease, in milliseconds. */
  readonly lease: number;
  /** The interval of renewals, in milliseconds. */
  readonly every: number;
  readonly process: ReturnType<typeof thisProcess>;
}

/** The data that the thread is started with. */
export interface HeartbeatData extends HeartbeatOptions {
  /** The paths of the drivers, which the thread cannot find. */
  readonly packages: PackagePaths;
}

/** A message to the thread: renew the lease regularly, no longer renew it, or end. */
export type HeartbeatCommand = "start" | "stop" | "close";

/**
 * A message of the thread: it has started; it has renewed the lease, with the moments at which that began and was durable;
 * or a renewal has failed, and it continues to try.
 */
export type HeartbeatMessage =
  | "ready"
  | { readonly began: Moment; readonly durable: Moment }
  | { readonly error: unknown };

/** The surroundings of the thread. */
export interface HeartbeatPorts {
  /** Connects the thread with the main thread. */
  readonly port: Pick<MessagePort, "on" | "postMessage">;
  /** Opens the store. If that fails the first time, the error is not caught and ends the thread. */
  readonly openStore: (url: string, options: StoreOptions) => Promise<Store>;
  /** Ends the thread. */
  readonly end: () => void;
}

/** Renews the lease when messages tell it to. */
export function runHeartbeat(options: HeartbeatOptions, { port, openStore, end }: HeartbeatPorts): void {
  const { url, key, lease, every, process } = options;
  let store: Store | undefined;
  let timer: NodeJS.Timeout | undefined;
  let renewal = Promise.resolve();
  let isRenewing = false;
  let lastValue: string | undefined;

  const send = (message: HeartbeatMessage): void => port.postMessage(message);

  const renew = async (): Promise<void> => {
    // After a power cut no process is left that needs the lease, so `process` durability suffices.
    store ??= await openStore(url, { ...options.options, durability: "process" });
    for (;;) {
      const began = systemMoment();
      const until = (await store.now()) + lease;
      lastValue = await renewLease(store, key, { until, process }, lastValue);
      const durable = systemMoment();
      send({ began, durable });
      // A renewal that took long extends the lease by little, so another one follows, unless the thread was stopped.
      if (elapsedBetween(began, durable) < every || !timer) return;
    }
  };

  /** Starts a renewal, unless one is in progress: while the store is unavailable they would pile up. */
  const renewOnce = (): void => {
    if (isRenewing) return;
    isRenewing = true;
    renewal = renew()
      .catch((error: unknown) => {
        // If the store cannot be opened, the thread ends and the main thread renews the lease. Later failures may be temporary.
        if (!store) throw toPlainError(error);
        send({ error: toPlainError(error) });
      })
      .finally(() => (isRenewing = false));
  };

  const close = async (): Promise<void> => {
    await renewal;
    await store?.close();
    end();
  };

  port.on("message", (command: HeartbeatCommand) => {
    clearInterval(timer);
    timer = command === "start" ? setInterval(renewOnce, every) : undefined;
    if (command === "close") void close();
  });
  send("ready");
}

/** Converts an error to one that can be sent to another thread. */
function toPlainError(error: unknown): Error {
  return new Error(error instanceof Error ? error.message : String(error));
}
