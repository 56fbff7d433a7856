/** Runs that are cancelled at random moments: a cancel that returned `true` is final. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { chooseSeed } from "../support/seed.js";

/** Cancels runs at `count` random moments on each store. */
export function cancelAtRandomMoments(count: number): void {
  describe.each(STORES.filter(({ name }) => name !== "sqlite::memory:"))("cancelling a run, on $name", (kind) => {
    const data = useData(kind);

    it(`is final at each of ${count} random moments`, { timeout: 600_000 }, async () => {
      const random = createRandom(chooseSeed());
      const [runner, other] = [await data.open(), await data.open()];
      const problems: string[] = [];
      let cancelled = 0;
      for (let first = 0; first < count; first += TOGETHER) {
        const trials = Array.from({ length: Math.min(TOGETHER, count - first) }, (_, index) =>
          cancelOne(runner, other, `s${first + index}`, random),
        );
        for (const { problem, isCancelled } of await Promise.all(trials)) {
          if (isCancelled) cancelled++;
          if (problem !== undefined) problems.push(problem);
        }
      }
      expect(problems.slice(0, 20), `${problems.length} of ${count} cancels were not final`).toEqual([]);
      expect(cancelled).toBeGreaterThan(count / 4);
      // There is no run left to recover.
      const handles = await Promise.all([runner.recover([createWorker(new Map())]), other.recover([])]);
      expect(handles.flat()).toEqual([]);
    });
  });
}

/** Sessions that run at the same time. */
const TOGETHER = 10;

interface WorkerState {
  readonly steps: number;
  step: number;
  done: string[];
}

/** What the tools of a session did. */
class Tools {
  readonly begun: string[] = [];
  readonly ended: string[] = [];
  /** Tools that began after the run had ended. */
  readonly late: string[] = [];
  isOver = false;

  constructor(readonly random: () => number) {}

  async run(name: string): Promise<string> {
    this.begun.push(name);
    if (this.isOver) this.late.push(name);
    const time = this.random();
    if (time > 0.3) await sleep(time * 4);
    this.ended.push(name);
    return name;
  }
}

function createWorker(tools: ReadonlyMap<string, Tools>) {
  return defineAgent({
    name: "worker",
    initial: (steps: number): WorkerState => ({ steps, step: 0, done: [] }),
    async step(run) {
      const world = tools.get(run.session) as Tools;
      const { state } = run;
      const names = Array.from({ length: 1 + (state.step % 3) }, (_, index) => `${state.step}.${index}`);
      const results = await Promise.all(
        names.map((name) => run.tool({ id: name, name: "work" }, () => world.run(name))),
      );
      state.done.push(...results);
      state.step++;
      return state.step === state.steps ? run.complete(state.done.length) : undefined;
    },
  });
}

interface Trial {
  readonly problem: string | undefined;
  readonly isCancelled: boolean;
}

async function cancelOne(runner: Savepoint, other: Savepoint, session: string, random: () => number): Promise<Trial> {
  const tools = new Tools(random);
  const agent = createWorker(new Map([[session, tools]]));
  const isElsewhere = random() < 0.3;
  const moment = random() * 40;
  const input = 1 + Math.floor(random() * 25);
  const handle = await runner.start(agent, { session, input });
  const result = handle.result().then(
    ({ status, reason }) => `${status} ${reason ?? ""}`.trim(),
    (error: Error & { code?: string }) => `${error.code ?? error.name}: ${error.message}`,
  );
  await sleep(moment);
  const isCancelled = await (isElsewhere ? other : runner).cancel(session, "enough");
  // A run of another Savepoint has ended when its result is there; one of the same has by now.
  if (isElsewhere) await result;
  tools.isOver = true;
  const fail = (problem: string): Trial => ({ problem: `${session}: ${problem}`, isCancelled });
  const ended = await result;
  const wanted = isCancelled ? "halted cancelled: enough" : "completed";
  if (ended !== wanted) return fail(`cancel() returned ${isCancelled}, and the run ended with ${ended}`);
  await sleep(5);
  if (tools.late.length > 0) return fail(`${tools.late.length} tools began after the run had been cancelled`);
  const info = await other.sessions.load(session);
  const standing = `${info?.status} ${info?.reason ?? ""}`.trim();
  if (standing !== wanted) return fail(`it stands as ${standing}`);
  const again = await runner.run(agent, { session });
  if (again.status !== (isCancelled ? "halted" : "completed")) return fail(`it was resumed, and is ${again.status}`);
  if (tools.late.length > 0) return fail(`it was resumed, and ${tools.late.length} tools began`);
  const recorded = new Set((again.state as WorkerState).done);
  for await (const entry of runner.journal(session)) {
    if (entry.outcome === "recorded") recorded.add(String(entry.value));
  }
  const lost = tools.ended.filter((name) => !recorded.has(name));
  if (lost.length > 0) return fail(`the results of ${lost.join(", ")} are not recorded`);
  return { problem: undefined, isCancelled };
}

/** Numbers from 0 to 1 that follow from a seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
