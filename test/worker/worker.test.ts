/** Enqueued sessions, and the workers that run them. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type Agent, defineAgent, type Savepoint, type Worker, type WorkerOptions } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { createGate } from "../support/gate.js";
import { until } from "../support/until.mjs";

interface Count {
  n: number;
}

/** Counts to the number in its input, one step per number. */
const counter = defineAgent({
  name: "counter",
  initial: (input: { to: number }) => ({ n: 0, to: input.to }),
  async step(run) {
    run.state.n = await run.effect("count", () => run.state.n + 1);
    if (run.state.n >= run.state.to) return run.complete(run.state.n);
  },
});

describe.each(STORES)("on $name", (kind) => {
  const data = useData(kind);

  describe("an enqueued session", () => {
    it("has the status queued, and is listed, before a worker has claimed it", async () => {
      const sp = await data.open();
      expect(await sp.enqueue(counter, { session: "a", input: { to: 2 } })).toBe(true);
      expect(await sp.sessions.load("a")).toMatchObject({ status: "queued", agent: "counter" });
      expect((await sp.sessions.list({ agent: "counter" }).all()).map(({ id }) => id)).toEqual(["a"]);
      expect(await sp.session("a").latest()).toBeUndefined();
    });

    it("is enqueued once, however many processes enqueue it at the same time", async () => {
      const [one, two] = [await data.open(), await data.open()];
      const asked = Array.from({ length: 8 }, (_, n) =>
        (n % 2 ? one : two).enqueue("counter", { session: "a", input: { to: 2 } }),
      );
      expect((await Promise.all(asked)).filter(Boolean)).toHaveLength(1);
      const result = await one.run(counter, { session: "a" });
      expect(result).toMatchObject({ status: "completed", output: 2 });
      expect(await two.enqueue(counter, { session: "a", input: { to: 2 } })).toBe(false);
    });

    it("rejects another input and another agent", async () => {
      const sp = await data.open();
      await sp.enqueue(counter, { session: "a", input: { to: 2 } });
      await expect(sp.enqueue(counter, { session: "a", input: { to: 3 } })).rejects.toMatchObject({
        code: "INPUT_MISMATCH",
      });
      await expect(sp.run(counter, { session: "a", input: { to: 3 } })).rejects.toMatchObject({
        code: "INPUT_MISMATCH",
      });
      await expect(sp.enqueue("other", { session: "a", input: 1 })).rejects.toMatchObject({ code: "AGENT_MISMATCH" });
      expect(await sp.run(counter, { session: "a", input: { to: 2 } })).toMatchObject({ output: 2 });
    });

    it("can be cancelled, deleted, and enqueued again", async () => {
      const sp = await data.open();
      await sp.enqueue(counter, { session: "a", input: { to: 2 } });
      expect(await sp.cancel("a", "not wanted")).toBe(true);
      expect(await sp.sessions.load("a")).toMatchObject({ status: "halted", reason: "cancelled: not wanted" });
      await sp.sessions.delete("a");
      expect(await sp.enqueue(counter, { session: "a", input: { to: 3 } })).toBe(true);
      await withWorker(sp, [counter], {}, async () => await ended(sp, ["a"]));
      expect((await sp.session("a").latest())?.state).toMatchObject({ n: 3 });
    });

    it("is rejected with an invalid priority or time", async () => {
      const sp = await data.open();
      const enqueue = (options: object): Promise<boolean> =>
        sp.enqueue(counter, { session: "a", input: { to: 1 }, ...options });
      for (const priority of [-1, 10, 1.5, Number.NaN]) {
        await expect(enqueue({ priority })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      }
      await expect(enqueue({ runAt: "soon" })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      await expect(enqueue({ runAt: new Date(Number.NaN) })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      expect(await sp.sessions.load("a")).toBeUndefined();
    });
  });

  describe("a worker", () => {
    it("runs the sessions that are queued, and those that are enqueued later", async () => {
      const sp = await data.open();
      const names = Array.from({ length: 12 }, (_, n) => `s${n}`);
      for (const session of names.slice(0, 6)) await sp.enqueue(counter, { session, input: { to: 3 } });
      await withWorker(sp, [counter], { concurrency: 3 }, async () => {
        for (const session of names.slice(6)) await sp.enqueue(counter, { session, input: { to: 3 } });
        await ended(sp, names);
      });
      for (const session of names) expect((await sp.session<Count>(session).latest())?.state.n).toBe(3);
    });

    it("runs as many sessions at once as its concurrency allows, and no more", async () => {
      const sp = await data.open();
      let [now, most] = [0, 0];
      const busy = defineAgent({
        name: "busy",
        initial: () => ({}),
        async step(run) {
          await run.effect("work", async () => {
            most = Math.max(most, ++now);
            await until(() => most >= 3, "three sessions to be worked on at once");
            // A fourth session would start here.
            for (let turns = 0; turns < 20; turns++) await nextTurn();
            now--;
          });
          return run.complete();
        },
      });
      const names = Array.from({ length: 9 }, (_, n) => `s${n}`);
      for (const session of names) await sp.enqueue(busy, { session, input: undefined as never });
      await withWorker(sp, [busy], { concurrency: 3 }, () => ended(sp, names));
      expect(most).toBe(3);
    });

    it("claims the most urgent session first, and among equals the one that was scheduled first", async () => {
      const sp = await data.open();
      const order: string[] = [];
      const noting = defineAgent({
        name: "noting",
        initial: (name: string) => ({ name }),
        async step(run) {
          await run.effect("note", () => void order.push(run.state.name));
          return run.complete();
        },
      });
      const leave = (session: string, options: { priority?: number; runAt?: Date } = {}): Promise<boolean> =>
        sp.enqueue(noting, { session, input: session, ...options });
      await leave("z-first", { runAt: new Date(Date.now() - 60_000) });
      await leave("a-second", { runAt: new Date(Date.now() - 30_000) });
      await leave("middle", { priority: 5 });
      await leave("urgent", { priority: 9 });
      await withWorker(sp, [noting], { concurrency: 1 }, () => ended(sp, ["z-first", "a-second", "middle", "urgent"]));
      expect(order).toEqual(["urgent", "middle", "z-first", "a-second"]);
    });

    it("does not start a session before its scheduled time", async () => {
      const sp = await data.open();
      await sp.enqueue(counter, { session: "late", input: { to: 1 }, runAt: "1h" });
      await sp.enqueue(counter, { session: "soon", input: { to: 1 }, runAt: new Date(Date.now() + 300) });
      await sp.enqueue(counter, { session: "now", input: { to: 1 } });
      await withWorker(sp, [counter], { poll: 50 }, () => ended(sp, ["now", "soon"]));
      expect(await sp.sessions.load("late")).toMatchObject({ status: "queued" });
    });

    it("resumes sessions that have slept, were answered, or were sent a further input", async () => {
      const sp = await data.open();
      const waiting = defineAgent({
        name: "waiting",
        initial: (input: string) => ({ input, told: [] as unknown[], turns: 1 }),
        receive: (state, input: string) => {
          state.input = input;
          state.turns++;
        },
        async step(run) {
          if (run.state.input === "sleep") await run.sleep(200);
          if (run.state.input === "ask") run.state.told.push(await run.ask("which?"));
          return run.complete(run.state.turns);
        },
      });
      for (const session of ["sleep", "ask"]) await sp.enqueue(waiting, { session, input: session });
      await withWorker(sp, [waiting], { poll: 50 }, async () => {
        await ended(sp, ["sleep"]);
        await until(async () => (await sp.sessions.load("ask"))?.status === "waiting", "the question");
        await sp.answer("ask", "this one");
        await ended(sp, ["ask"]);
        await sp.send("sleep", "again");
        const turns = async () => (await sp.session<{ turns: number }>("sleep").latest())?.state.turns;
        await until(async () => (await turns()) === 2, "the second turn");
        await ended(sp, ["sleep"]);
      });
      expect((await sp.session("ask").latest())?.state).toMatchObject({ told: ["this one"] });
    });

    it("does not claim sessions of other agents", async () => {
      const sp = await data.open();
      await sp.enqueue("somebody else's", { session: "theirs", input: 1 });
      await sp.enqueue(counter, { session: "mine", input: { to: 1 } });
      await withWorker(sp, [counter], {}, () => ended(sp, ["mine"]));
      expect(await sp.sessions.load("theirs")).toMatchObject({ status: "queued" });
    });

    it("is not blocked by a session that cannot be started, and emits a failure", async () => {
      const sp = await data.open();
      const failing = defineAgent({
        name: "failing",
        initial: (): object => {
          throw new Error("no");
        },
        step: (run) => run.complete(),
      });
      await sp.enqueue("failing", { session: "bad", input: null, priority: 9 });
      await sp.enqueue(counter, { session: "good", input: { to: 1 } });
      const failures: string[] = [];
      await withWorker(sp, [failing, counter] as Agent[], { concurrency: 1 }, async (worker) => {
        worker.on("failure", ({ message }) => failures.push(message));
        await ended(sp, ["good"]);
      });
      expect(failures).toHaveLength(1);
      expect(failures[0]).toContain('session "bad" could not be started');
    });

    it("does not start a session that was deleted while it was queued", async () => {
      const sp = await data.open();
      await sp.enqueue(counter, { session: "gone", input: { to: 1 } });
      await sp.sessions.delete("gone");
      await sp.enqueue(counter, { session: "here", input: { to: 1 } });
      await withWorker(sp, [counter], {}, () => ended(sp, ["here"]));
      expect(await sp.sessions.load("gone")).toBeUndefined();
    });

    it("emits no failure for a session that is deleted while it runs", async () => {
      const sp = await data.open();
      const begun = createGate();
      const slow = defineAgent({
        name: "slow",
        initial: () => ({}),
        step: (run) =>
          run.effect("wait", ({ signal }) => {
            begun.open();
            return new Promise((resolve) => signal.addEventListener("abort", () => resolve(undefined)));
          }),
      }) as Agent;
      const failures: string[] = [];
      await withWorker(sp, [slow, counter] as Agent[], {}, async (worker) => {
        worker.on("failure", ({ message }) => failures.push(message));
        await sp.enqueue("slow", { session: "gone", input: null });
        await begun.promise;
        await sp.sessions.delete("gone");
        await until(() => worker.running === 0, "the run of the deleted session to end");
      });
      expect(failures).toEqual([]);
    });

    it("releases its sessions at the end of a step when it is stopped, and another one resumes them", async () => {
      const [one, two] = [await data.open(), await data.open()];
      const steps: string[] = [];
      const [begun, stopping] = [createGate(), createGate()];
      const slow = (by: string): Agent =>
        defineAgent({
          name: "slow",
          strategy: "everyStep",
          initial: () => ({ n: 0 }),
          async step(run) {
            if (by === "one" && run.state.n === 3) await run.effect("work", () => (begun.open(), stopping.promise));
            steps.push(`${by} ${++run.state.n}`);
            if (run.state.n === 12) return run.complete(run.state.n);
          },
        }) as Agent;
      await one.enqueue("slow", { session: "a", input: null });
      const first = one.worker([slow("one")], { signals: false });
      await first.start();
      await begun.promise;
      const stopped = first.stop();
      stopping.open();
      await stopped;
      const before = steps.length;
      expect(before).toBe(4);
      // No lease has to expire before that.
      await withWorker(two, [slow("two")], { lease: "1h" }, () => ended(two, ["a"]));
      expect(steps.map((step) => step.split(" ")[1])).toEqual(Array.from({ length: 12 }, (_, n) => String(n + 1)));
      expect(steps[before]).toBe(`two ${before + 1}`);
    });

    it("shares the queue with other workers, and each session is run by one of them", async () => {
      const savepoints = [await data.open(), await data.open(), await data.open()];
      const [sp] = savepoints as [Savepoint, ...Savepoint[]];
      const names = Array.from({ length: 15 }, (_, n) => `s${n}`);
      for (const session of names) await sp.enqueue(counter, { session, input: { to: 4 } });
      const workers = savepoints.map((each) => each.worker([counter], { concurrency: 4, signals: false }));
      await Promise.all(workers.map((worker) => worker.start()));
      await ended(sp, names);
      await Promise.all(workers.map((worker) => worker.stop()));
      for (const session of names) {
        const latest = await sp.session<Count>(session).latest();
        expect(latest?.state.n).toBe(4);
        expect(latest?.step).toBe(4);
      }
    });

    it("rejects invalid options", async () => {
      const sp = await data.open();
      for (const options of [{ concurrency: 0 }, { maxCrashes: 0 }, { lease: 5 }, { poll: "often" as never }]) {
        expect(() => sp.worker([counter], options)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
      }
      expect(() => sp.worker(counter as never)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    });
  });
});

async function withWorker(
  sp: Savepoint,
  agents: readonly Agent<never, unknown, unknown>[],
  options: WorkerOptions,
  work: (worker: Worker) => Promise<unknown>,
): Promise<void> {
  const worker = sp.worker(agents, { signals: false, ...options });
  const started = worker.start();
  try {
    await work(worker);
    await started;
  } finally {
    await worker.stop();
  }
}

/** Waits until all these sessions are completed. */
async function ended(sp: Savepoint, sessions: readonly string[]): Promise<void> {
  await until(async () => {
    const found = await Promise.all(sessions.map((session) => sp.sessions.load(session)));
    return found.every((session) => session?.status === "completed");
  }, `${sessions.join()} to be completed`);
}
