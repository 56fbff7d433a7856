/** `sp.worker()`: the workers of one `Savepoint`. */
import { type Agent, parseAgents, parseWorkerOptions, Worker, type WorkerOptions } from "../runs/index.js";
import { thisProcess } from "../util/index.js";
import type { Services } from "./services.js";

/** How often a worker checks for work, in milliseconds: seldom if the store announces new work, often if not. */
const POLL_WITH_LISTEN = 1000;
const POLL_WITHOUT_LISTEN = 200;

/** Creates workers, and stops all of them when the store is closed. */
export class Workers {
  readonly #services: Services;
  readonly #close: () => Promise<void>;
  readonly #running = new Set<Worker>();

  /** @param close closes the whole `Savepoint`, for workers that stop with their process */
  constructor(services: Services, close: () => Promise<void>) {
    this.#services = services;
    this.#close = close;
  }

  /** A worker for these agents, with runs and a lease of its own. It does nothing before `start()`. */
  create<State, Output>(agents: readonly Agent<never, State, Output>[], options: WorkerOptions): Worker {
    const context = this.#services.open();
    const byName = new Map(parseAgents(agents, "sp.worker").map((agent) => [agent.name, agent]));
    for (const name of byName.keys()) this.#services.scope.resolveAgent(name);
    const { host, pid } = thisProcess();
    const poll = context.store.listen ? POLL_WITH_LISTEN : POLL_WITHOUT_LISTEN;
    const settings = parseWorkerOptions(options, { lease: this.#services.lease, name: `${host}:${pid}`, poll });
    const runs = this.#services.createRuns(settings.lease, {
      onEvent: (event) => worker.emit(event),
      onError: (event) => worker.emit({ type: "runError", ...event }),
      hears: (type) => worker.hears(type),
    });
    const worker = new Worker(
      { runs, close: this.#close, stopped: (one) => this.#running.delete(one) },
      byName,
      settings,
    );
    this.#running.add(worker);
    return worker;
  }

  /** Stops all workers without waiting for their runs. */
  async stop(): Promise<void> {
    await Promise.all([...this.#running].map((worker) => worker.stop({ grace: 0 })));
  }
}
