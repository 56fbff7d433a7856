/** Orphans that a worker resumes, although some of the others cannot be resumed. */
import { expect, it, vi } from "vitest";
import { type Agent, defineAgent, Savepoint, SavepointError } from "../../src/index.js";
import { openStore, type Store } from "../../src/store.js";
import { branchKey, journalKey } from "../../src/records/index.js";
import { createGate } from "../support/gate.js";
import { until } from "../support/until.mjs";

const HOUR = 3_600_000;
const HUNG = new Promise<never>(() => {});

function agentOf(name: string, work: () => unknown): Agent<undefined, object, string> {
  return defineAgent({
    name,
    initial: () => ({}),
    async step(run) {
      await run.effect("work", work);
      return run.complete("done");
    },
  });
}

/** Leaves sessions that another process has started and does not continue. */
async function leave(store: Store, now: () => number, agent: string, sessions: readonly string[]): Promise<void> {
  // Its lease is renewed by a clock that does not advance, and expires by the one that the tests advance.
  const sp = await Savepoint.open(store, { now, lease: "1h" });
  let hanging = 0;
  const hung = agentOf(agent, () => (hanging++, HUNG));
  for (const session of sessions) await sp.start(hung, { session, input: undefined });
  await until(() => hanging === sessions.length, "all sessions to hang");
}

async function untilCompleted(sp: Savepoint, session: string): Promise<void> {
  await until(async () => (await sp.sessions.load(session))?.status === "completed", `"${session}" to be completed`);
}

it("a worker finds the orphans of its agents behind any number of orphans of other agents", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const others = Array.from({ length: 5 }, (_, n) => `other-${n}`);
  // Their previous owner comes first or last in the list: both cases are tested.
  await leave(store, () => time, "others", others);
  await leave(store, () => time, "ours", ["mine"]);
  await leave(store, () => time, "others", ["other-5", "other-6"]);
  time += 2 * HOUR;
  const sp = await Savepoint.open(store, { now: () => time });
  const worker = sp.worker([agentOf("ours", () => "done")], { concurrency: 2, poll: 10, signals: false });
  await worker.start();
  await untilCompleted(sp, "mine");
  await worker.stop({ grace: 0 });
});

it("a worker resumes the other orphans if the journal of one is damaged", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  await leave(store, () => time, "ours", ["bad", "good"]);
  time += 2 * HOUR;
  const get = store.get.bind(store);
  const bad = journalKey("bad", "main");
  store.get = async (keys) => {
    const found = await get(keys);
    return found.map((record, index) => (keys[index] === bad ? { key: bad, unreadable: "a bit was flipped" } : record));
  };
  const sp = await Savepoint.open(store, { now: () => time });
  const worker = sp.worker([agentOf("ours", () => "done")], { concurrency: 2, poll: 10, signals: false });
  const failures: string[] = [];
  worker.on("failure", ({ message }) => failures.push(message));
  await sp.enqueue("ours", { session: "new", input: undefined });
  await worker.start();
  await untilCompleted(sp, "good");
  await untilCompleted(sp, "new");
  expect(failures).toEqual([expect.stringContaining('session "bad" could not be started')]);
  await worker.stop({ grace: 0 });
});

it("a worker that was stopped and could not hand a session back does not count as dead", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const first = await Savepoint.open(store, { now: () => time });
  const [working, stopping] = [createGate(), createGate()];
  const work = (): Promise<void> => (working.open(), stopping.promise);
  const stopped = first.worker([agentOf("ours", work)], { poll: 10, signals: false });
  const failures: string[] = [];
  stopped.on("failure", ({ message }) => failures.push(message));
  await first.enqueue("ours", { session: "s", input: undefined });
  await stopped.start();
  await working.promise;
  // The database is away while the worker releases the session, and back when the worker ends.
  const commit = store.commit.bind(store);
  store.commit = (wanted) =>
    wanted.puts?.some(({ key }) => key === branchKey("s", "main"))
      ? Promise.reject(new SavepointError("UNAVAILABLE", "no database"))
      : commit(wanted);
  const stop = stopped.stop({ grace: 0 });
  stopping.open();
  await stop;
  expect(failures).toEqual([expect.stringContaining('session "s"')]);
  store.commit = commit;
  time += 2 * HOUR;
  const sp = await Savepoint.open(store, { now: () => time });
  const worker = sp.worker([agentOf("ours", () => "done")], { maxCrashes: 1, poll: 10, signals: false });
  await worker.start();
  await untilCompleted(sp, "s");
  await worker.stop({ grace: 0 });
});

it("sessions that ran together when their worker died are resumed one at a time", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  await leave(store, () => time, "ours", ["a", "b", "c"]);
  const options = { concurrency: 3, maxCrashes: 2, poll: 10, lease: HOUR, signals: false };
  time += 2 * HOUR;
  const first = await Savepoint.open(store, { now: () => time });
  const hung: string[] = [];
  const dying = first.worker([agentOf("ours", () => (hung.push("hung"), HUNG))], options);
  await dying.start();
  await until(() => hung.length > 0, "the worker to begin");
  // It keeps checking for work, and finds none that it may start beside that session.
  await looked(store, 10);
  expect(hung).toHaveLength(1);
  time += 2 * HOUR;
  const sp = await Savepoint.open(store, { now: () => time });
  const worker = sp.worker([agentOf("ours", () => "done")], options);
  await worker.start();
  const statuses = async () => (await sp.sessions.list().all()).map(({ status }) => status).sort();
  const isOver = async () => !(await statuses()).some((status) => status === "interrupted" || status === "running");
  await until(isOver, "all sessions to be completed or failed");
  expect(await statuses()).toEqual(["completed", "completed", "failed"]);
  await worker.stop({ grace: 0 });
});

/** Resolves after the given number of further searches in a store. */
async function looked(store: Store, times: number): Promise<void> {
  const list = store.list.bind(store);
  let calls = 0;
  store.list = (...given) => (calls++, list(...given));
  await until(() => calls >= times, `the worker to look for work ${times} times`);
  store.list = list;
}
it("a worker resumes sessions under suspicion one after another, without waiting in between", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const sessions = Array.from({ length: 7 }, (_, n) => `s${n}`);
  await leave(store, () => time, "ours", sessions);
  time += 2 * HOUR;
  const sp = await Savepoint.open(store, { now: () => time });
  let [running, most] = [0, 0];
  const agent = agentOf("ours", async () => {
    most = Math.max(most, ++running);
    await new Promise(setImmediate);
    running--;
  });
  const worker = sp.worker([agent], { concurrency: 7, maxCrashes: 2, poll: HOUR, lease: HOUR, signals: false });
  // No sweep is scheduled by time.
  const at = performance.now();
  vi.spyOn(performance, "now").mockReturnValue(at);
  await worker.start();
  for (const session of sessions) await untilCompleted(sp, session);
  vi.restoreAllMocks();
  expect(most).toBe(1);
  await worker.stop({ grace: 0 });
});

it("a worker resumes the next session under suspicion at once, even while another session is being claimed", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  // Two processes have died with the first two sessions, and one with the third, which is not under suspicion.
  await leave(store, () => time, "ours", ["a", "b"]);
  time += 2 * HOUR;
  await leave(store, () => time, "ours", ["a", "b", "c"]);
  time += 2 * HOUR;
  const sp = await Savepoint.open(store, { now: () => time });
  // The claim of the third takes until the first session under suspicion has completed.
  const commit = store.commit.bind(store);
  store.commit = async (wanted) => {
    if (wanted.puts?.some(({ key }) => key === branchKey("c", "main"))) {
      while (!(await sp.sessions.list({ status: "completed" }).all()).length) await new Promise(setImmediate);
      await new Promise(setImmediate);
    }
    return commit(wanted);
  };
  const worker = sp.worker([agentOf("ours", () => "done")], { poll: HOUR, lease: HOUR, signals: false });
  const at = performance.now();
  vi.spyOn(performance, "now").mockReturnValue(at);
  await worker.start();
  for (const session of ["a", "b", "c"]) await untilCompleted(sp, session);
  vi.restoreAllMocks();
  await worker.stop({ grace: 0 });
});
