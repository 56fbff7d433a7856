/** Damage that reads have found, and the verification that a client has started. */
import type { Listener, Savepoint, VerifyCounts, VerifyProblem } from "../../index.js";
import type { DamageView, VerifyRequest } from "../api.js";
import { toWire } from "../http/responses.js";
import { cut, omitUndefined } from "./views.js";

const MAX_EVENTS = 100;
const MAX_PROBLEMS = 1000;
const MAX_REASON = 2000;

type Verification = NonNullable<DamageView["verification"]>;

/** Thrown inside a verification to stop it. */
class Stopped extends Error {}

export class Damage {
  readonly #sp: Savepoint;
  readonly #unlisten: () => void;
  #events: DamageView["events"] = [];
  #verification: Verification | undefined;
  #running: { stop: boolean; readonly done: Promise<void> } | undefined;
  #version = 0;

  constructor(sp: Savepoint) {
    this.#sp = sp;
    const listener: Listener<"damage"> = ({ sessionId, agent, conversationId, seq, reason }) => {
      const event = { session: sessionId, agent, conversation: conversationId, seq, reason: cut(reason, MAX_REASON) };
      // The same damage is found whenever its part is read.
      const isSame = (known: DamageView["events"][number]): boolean =>
        JSON.stringify({ ...known, at: undefined }) === JSON.stringify(omitUndefined(event));
      const others = this.#events.filter((known) => !isSame(known));
      this.#events = [{ ...omitUndefined(event), at: Date.now() }, ...others].slice(0, MAX_EVENTS);
      this.#version++;
    };
    this.#unlisten = sp.on("damage", listener, { observe: true });
  }

  /** Rises with every change. */
  get version(): number {
    return this.#version;
  }

  view(): DamageView {
    return omitUndefined({ events: this.#events, verification: this.#verification });
  }

  /** Starts a verification of the whole store, unless one is running; or stops it. */
  async verify({ deep = false, stop = false }: VerifyRequest): Promise<DamageView> {
    if (stop) await this.#stop();
    else this.#running ??= this.#start(deep);
    return this.view();
  }

  async close(): Promise<void> {
    this.#unlisten();
    await this.#stop();
  }

  async #stop(): Promise<void> {
    if (this.#running) this.#running.stop = true;
    await this.#running?.done;
  }

  #start(deep: boolean): { stop: boolean; readonly done: Promise<void> } {
    const startedAt = Date.now();
    this.#set({ state: "running", deep, startedAt, progress: {}, problems: [] });
    const control = { stop: false, done: Promise.resolve() };
    const onProgress = (progress: VerifyCounts): void => {
      if (control.stop) throw new Stopped();
      this.#set({ state: "running", deep, startedAt, progress: { ...progress }, problems: [] });
    };
    control.done = this.#sp
      .verify({ deep, onProgress })
      .then(
        ({ ok, problems, ...counts }) => {
          const progress = onlyCounts(counts);
          const ended = { deep, startedAt, endedAt: Date.now(), progress, ok };
          this.#set({ state: "done", ...ended, problems: problems.slice(0, MAX_PROBLEMS).map(toProblemView) });
        },
        (error: unknown) => {
          const { progress = {} } = this.#verification ?? {};
          const ended = { deep, startedAt, endedAt: Date.now(), progress, problems: [] };
          if (error instanceof Stopped) this.#set({ state: "stopped", ...ended });
          else this.#set({ state: "failed", ...ended, message: cut((error as Error).message, MAX_REASON) });
        },
      )
      .finally(() => (this.#running = undefined));
    return control;
  }

  #set(verification: Verification): void {
    this.#verification = verification;
    this.#version++;
  }
}

function onlyCounts(counts: VerifyCounts): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => typeof count === "number"));
}

function toProblemView(problem: VerifyProblem): Verification["problems"][number] {
  const { checkpoints, reason } = problem;
  const bounded = { ...problem, checkpoints: checkpoints.slice(0, 20), reason: cut(reason, MAX_REASON) };
  return toWire(bounded) as unknown as Verification["problems"][number];
}
