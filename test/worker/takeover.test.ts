/** A process that dies on this host: all its sessions are claimed at once, however long its lease is. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { defineAgent, Savepoint, type Worker } from "../../src/index.js";
import { ALL_OWNERS } from "../../src/records/index.js";
import { openStore, type Store } from "../../src/store.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { until, untilStatus } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const program = fileURLToPath(new URL("./orphan-child.mjs", import.meta.url));
const SESSIONS = Array.from({ length: 7 }, (_, n) => `s${n}`);

/** Waits until all sessions run at the same time: none waits for another to end. */
function together(): { agent: ReturnType<typeof defineAgent>; running: string[]; finish: () => void } {
  const running: string[] = [];
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const agent = defineAgent({
    name: "ours",
    initial: () => ({}),
    async step(run) {
      running.push(run.session);
      await finished;
      return run.complete("done");
    },
  });
  return { agent: agent as ReturnType<typeof defineAgent>, running, finish };
}

const KINDS = [
  { name: "sqlite:", url: (folder: string) => `sqlite:${join(folder, "store.db")}`, remove: async () => {} },
  { name: "postgres:", url: () => newPostgresUrl(), remove: dropSchema },
];

describe.each(KINDS)("a process that dies on the host of a worker, on $name", (kind) => {
  let folder: string;
  let url: string;
  let store: Store;
  let sp: Savepoint;
  let worker: Worker | undefined;
  const children: ChildProcess[] = [];

  beforeEach(async () => {
    folder = await makeFolder();
    url = kind.url(folder);
    store = await openStore(url, { durability: "process" });
    sp = await Savepoint.open(store);
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    for (const child of children.splice(0)) await end(child);
    await worker?.stop({ grace: 0 });
    worker = undefined;
    await sp.close();
    await store.close();
    await kind.remove(url);
    await removeFolder(folder);
  });

  async function begin(sessions: readonly string[]): Promise<ChildProcess> {
    const child = spawn(process.execPath, [program, url, "60s", ...sessions], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    await new Promise<void>((resolve) => child.stdout.once("data", () => resolve()));
    return child;
  }

  async function end(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const closed = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGKILL");
    await closed;
  }

  /** From now on nothing is scheduled by time: no sweep, and no poll, however long the test takes. */
  function stopTheClock(): void {
    const at = performance.now();
    let calls = 0;
    vi.spyOn(performance, "now").mockImplementation(() => at + calls++ / 1e6);
  }

  it("leaves all its sessions to an idle worker, without a sweep or a poll", async () => {
    const child = await begin(SESSIONS);
    const { agent, running, finish } = together();
    worker = sp.worker([agent], { concurrency: 8, lease: "60s", poll: "60s", signals: false });
    await worker.start();
    stopTheClock();
    await end(child);
    await until(() => running.length === SESSIONS.length, "all orphans to be resumed");
    expect([...running].sort()).toEqual(SESSIONS);
    finish();
    for (const id of SESSIONS) await untilStatus(sp, "completed", id);
  });

  it("is detected even if it started after the worker had last listed the owners", async () => {
    const { agent, running, finish } = together();
    // A store without notifications is queried with each poll.
    const poll = store.listen ? "60s" : "200ms";
    worker = sp.worker([agent], { concurrency: 8, lease: "60s", poll, signals: false });
    await worker.start();
    stopTheClock();
    await end(await begin(SESSIONS));
    await until(() => running.length === SESSIONS.length, "all orphans to be resumed");
    finish();
  });

  it("leaves as many sessions to a worker as its concurrency allows, and the rest as others complete", async () => {
    const child = await begin(SESSIONS);
    const running: string[] = [];
    const finishers: (() => void)[] = [];
    const agent = defineAgent({
      name: "ours",
      initial: () => ({}),
      async step(run) {
        running.push(run.session);
        await new Promise<void>((resolve) => finishers.push(resolve));
        return run.complete("done");
      },
    });
    worker = sp.worker([agent], { concurrency: 3, lease: "60s", poll: "60s", signals: false });
    await worker.start();
    stopTheClock();
    await end(child);
    for (const expected of [3, 4, 5, 6, 7]) {
      await until(() => running.length === expected, `${expected} orphans to be resumed`);
      finishers.shift()?.();
    }
    expect([...running].sort()).toEqual(SESSIONS);
    for (const finish of finishers) finish();
  });

  it("does not make an idle worker query the store more often", async () => {
    const list = vi.spyOn(store, "list");
    const owners = (): number => list.mock.calls.filter(([range]) => range.from === ALL_OWNERS.from).length;
    const child = await begin(["s0"]);
    const { agent, running, finish } = together();
    worker = sp.worker([agent], { concurrency: 8, lease: "60s", poll: "60s", signals: false });
    await worker.start();
    const [before, all] = [owners(), list.mock.calls.length];
    stopTheClock();
    // Several ticks in which the other process is alive.
    await new Promise((resolve) => setTimeout(resolve, 350));
    expect(list).toHaveBeenCalledTimes(all);
    await end(child);
    await until(() => running.length === 1, "the orphan to be resumed");
    // It searches for the orphans of the dead process, and lists other owners only if the store has no notifications.
    expect(owners() - before).toBeLessThanOrEqual(store.listen ? 0 : 2);
    finish();
  });
});
