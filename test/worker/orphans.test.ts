/** What others have left, where some of it cannot be gone on with. */
import { expect, it } from "vitest";
import { type Agent, defineAgent, Savepoint, SavepointError } from "../../src/index.js";
import { openStore, type Store } from "../../src/store/index.js";
import { branchKey, journalKey } from "../../src/model/keys.js";

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

/** Sessions that somebody has begun with, and does not go on with. */
async function leave(store: Store, now: () => number, agent: string, sessions: readonly string[]): Promise<void> {
  // Its lease is renewed by a clock that nobody moves, and ends by the one that the tests do.
  const sp = await Savepoint.open(store, { now, lease: "1h" });
  let hanging = 0;
  const hung = agentOf(agent, () => (hanging++, HUNG));
  for (const session of sessions) await sp.start(hung, { session, input: undefined });
  while (hanging < sessions.length) await new Promise(setImmediate);
}

async function untilCompleted(sp: Savepoint, session: string): Promise<void> {
  while ((await sp.sessions.load(session))?.status !== "completed") await new Promise(setImmediate);
}

it("finds what it can go on with behind any number of sessions of agents that it does not have", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const others = Array.from({ length: 5 }, (_, n) => `other-${n}`);
  // Whoever left them comes first or last in the list: both are tried.
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

it("goes on with the others where what one has recorded is damaged", async () => {
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
  expect(failures).toEqual([expect.stringContaining('session "bad" could not be begun with')]);
  await worker.stop({ grace: 0 });
});

it("goes on with what another could not hand back when it was stopped: that one has not died", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const first = await Savepoint.open(store, { now: () => time });
  let begun = (): void => {};
  const working = new Promise<void>((resolve) => (begun = resolve));
  const stopped = first.worker([agentOf("ours", () => (begun(), new Promise((resolve) => setTimeout(resolve, 200))))], {
    poll: 10,
    signals: false,
  });
  await first.enqueue("ours", { session: "s", input: undefined });
  await stopped.start();
  await working;
  // The database is away while it wants to let go of the session, and back when it says goodbye.
  const commit = store.commit.bind(store);
  store.commit = (wanted) =>
    wanted.puts?.some(({ key }) => key === branchKey("s", "main"))
      ? Promise.reject(new SavepointError("UNAVAILABLE", "no database"))
      : commit(wanted);
  await stopped.stop({ grace: 0 });
  store.commit = commit;
  time += 2 * HOUR;
  const sp = await Savepoint.open(store, { now: () => time });
  const worker = sp.worker([agentOf("ours", () => "done")], { maxDeaths: 1, poll: 10, signals: false });
  await worker.start();
  await untilCompleted(sp, "s");
  await worker.stop({ grace: 0 });
});

it("puts aside none that ran beside another, also where two deaths are enough", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  await leave(store, () => time, "ours", ["a", "b", "c"]);
  const options = { concurrency: 3, maxDeaths: 2, poll: 10, lease: HOUR, signals: false };
  time += 2 * HOUR;
  const first = await Savepoint.open(store, { now: () => time });
  const hung: string[] = [];
  const dying = first.worker([agentOf("ours", () => (hung.push("hung"), HUNG))], options);
  await dying.start();
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(hung).toHaveLength(1);
  time += 2 * HOUR;
  const sp = await Savepoint.open(store, { now: () => time });
  const worker = sp.worker([agentOf("ours", () => "done")], options);
  await worker.start();
  let standing: (string | undefined)[] = [];
  do {
    await new Promise(setImmediate);
    standing = (await sp.sessions.list().all()).map(({ status }) => status).sort();
  } while (standing.includes("interrupted") || standing.includes("running"));
  expect(standing).toEqual(["completed", "completed", "failed"]);
  await worker.stop({ grace: 0 });
});
