/** What must not block a worker: sessions that cannot be started, damage, and orphans of other agents. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MessageChannel } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Agent, defineAgent, Savepoint, SavepointError } from "../../src/index.js";
import {
  ALL_WORK,
  encodeQueueEntry,
  journalKey,
  newQueueEntry,
  ownedBy,
  queueEntryKey,
  workKey,
} from "../../src/records/index.js";
import { type HeartbeatCommand, type HeartbeatMessage, runHeartbeat } from "../../src/runs/leases/heartbeat.js";
import type { Moment } from "../../src/runs/leases/moment.js";
import { openStore } from "../../src/store.js";
import type { Commit, Store } from "../../src/store/contract/contract.js";
import { thisProcess } from "../../src/util/index.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { until } from "../support/until.mjs";

const options = { signals: false, poll: "20ms" } as const;

const clerk = defineAgent({
  name: "clerk",
  initial(input: { bad?: boolean }) {
    if (input.bad) throw new Error("no such order");
    return {};
  },
  step: async (run) => run.complete("done"),
});

/** An agent that never completes. */
const hanging = (name: string): Agent<{}, {}, unknown> =>
  defineAgent({ name, initial: () => ({}), step: () => new Promise(() => {}) }) as Agent<{}, {}, unknown>;

const isDone = (sp: Savepoint, session: string) => async (): Promise<boolean> =>
  (await sp.sessions.load(session))?.status === "completed";

describe.each(["memory:", "sqlite:", "file:", "postgres:"])("workers on %s", (kind) => {
  let time = 0;
  let store: Store;
  let opened: Savepoint[] = [];
  let remove: () => Promise<void> = async () => {};

  beforeEach(async () => {
    time = Date.now();
    opened = [];
    const folder = await makeFolder();
    const urls: Record<string, string> = {
      "sqlite:": `sqlite:${join(folder, "store.db")}`,
      "file:": `file:${folder}/store`,
    };
    const url = urls[kind] ?? (kind === "memory:" ? kind : newPostgresUrl());
    remove = async () => {
      await removeFolder(folder);
      if (kind === "postgres:") await dropSchema(url);
    };
    store = await openStore(url, { now: () => time, durability: "process" });
  });
  afterEach(async () => {
    for (const sp of opened) await sp.close().catch(() => {});
    await store.close();
    await remove();
  });

  /** A Savepoint on the same store, as another process would have. */
  async function open(on: Store = store): Promise<Savepoint> {
    const sp = await Savepoint.open(on, { now: () => time });
    opened.push(sp);
    return sp;
  }

  /** Leaves sessions that were started by a process whose lease has expired. */
  async function leave(agent: Agent<{}, {}, unknown>, ...sessions: string[]): Promise<void> {
    const sp = await open();
    for (const session of sessions) await sp.start(agent, { session, input: {} });
    time += 60_000;
  }

  it("sessions that cannot be started do not block the others", async () => {
    const sp = await open();
    const worker = sp.worker([clerk], { ...options, concurrency: 1 });
    const failures: string[] = [];
    worker.on("failure", ({ message }) => failures.push(message));
    for (const session of ["a", "b", "c"]) await sp.enqueue(clerk, { session, input: { bad: true }, priority: 9 });
    await sp.enqueue(clerk, { session: "good", input: {} });
    await worker.start();
    await until(isDone(sp, "good"), '"good" to be done');
    expect(failures.some((message) => message.includes('"a"'))).toBe(true);
    await worker.stop();
  });

  it("a damaged orphan does not block other sessions", async () => {
    await leave(hanging("clerk"), "broken", "whole");
    await store.commit({ puts: [{ key: journalKey("broken", "main"), value: "no journal" }] });
    const sp = await open();
    const worker = sp.worker([clerk], options);
    const failures: string[] = [];
    worker.on("failure", ({ message }) => failures.push(message));
    await sp.enqueue(clerk, { session: "queued", input: {} });
    await worker.start();
    await until(isDone(sp, "whole"), '"whole" to be done');
    await until(isDone(sp, "queued"), '"queued" to be done');
    expect(failures.filter((message) => message.includes('"broken"')).length).toBe(1);
    await worker.stop();
  });

  it("orphans of other agents do not hide those of the worker's own agents", async () => {
    await leave(hanging("other"), ...Array.from({ length: 12 }, (_, index) => `a${index}`));
    await leave(hanging("clerk"), "mine");
    const sp = await open();
    const worker = sp.worker([clerk], { ...options, concurrency: 1 });
    await worker.start();
    await until(isDone(sp, "mine"), "the session to be done");
    await worker.stop();
    // They are still there, for processes that have that agent.
    const rest = await (
      await open()
    ).recover([defineAgent({ name: "other", initial: () => ({}), step: async (run) => run.complete(1) })]);
    expect(rest).toHaveLength(12);
  });

  it("stale entries of the work index are removed", async () => {
    const stale = workKey("clerk", 0, 0, "gone", "main");
    const moved = workKey("clerk", 0, 0, "moved", "main");
    const due = newQueueEntry("other", 5, 3);
    await store.commit({
      puts: [
        { key: stale, value: "" },
        { key: moved, value: "" },
        { key: queueEntryKey("moved", "main"), value: encodeQueueEntry(due) },
        { key: workKey("other", 3, 5, "moved", "main"), value: "" },
      ],
    });
    const sp = await open();
    const worker = sp.worker([clerk], options);
    await worker.start();
    await until(async () => {
      const [one, two] = await store.get([stale, moved]);
      return !one && !two;
    }, "the stale entries to be removed");
    await worker.stop();
    expect(await store.list(ALL_WORK, { limit: 9 })).toHaveLength(1);
    expect(await store.get([queueEntryKey("moved", "main")])).not.toEqual([undefined]);
  });

  it("a session that a stopped worker could not release is resumed by another worker at once", async () => {
    let away = false;
    const failing: Store = new Proxy(store, {
      get(target, name) {
        if (name === "commit") {
          return async (commit: Commit) => {
            const lets = commit.puts?.some(({ key }) => key.startsWith("r"));
            if (away && lets) throw new SavepointError("UNAVAILABLE", "The database is away.");
            return target.commit(commit);
          };
        }
        if (name === "close") return async () => {};
        const value = Reflect.get(target, name, target) as unknown;
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
    const first = await open(failing);
    const worker = first.worker([hanging("clerk")], { ...options, grace: 0 });
    await worker.start();
    await first.enqueue("clerk", { session: "s", input: {} });
    await until(async () => worker.running === 1, "the session to be claimed");
    await until(async () => (await first.sessions.load("s"))?.status === "running", "the session to be running");
    away = true;
    await worker.stop();
    const second = await open();
    const other = second.worker([clerk], options);
    await other.start();
    await until(isDone(second, "s"), "the session to be done");
    await other.stop();
  });

  it("a worker that was stopped does not start again", async () => {
    const sp = await open();
    const before = process.listenerCount("SIGTERM");
    const worker = sp.worker([clerk], { poll: "20ms" });
    await worker.start();
    expect(process.listenerCount("SIGTERM")).toBe(before + 1);
    await worker.stop();
    await worker.start();
    expect(process.listenerCount("SIGTERM")).toBe(before);
  });

  it("a worker that is stopped leaves no leases and no entries in the store", async () => {
    const sp = await open();
    const worker = sp.worker([clerk], options);
    await worker.start();
    for (let index = 0; index < 20; index++) await sp.enqueue(clerk, { session: `s${index}`, input: {} });
    await until(
      async () => (await sp.sessions.list().all()).every(({ status }) => status === "completed"),
      "all sessions to be done",
    );
    await worker.stop();
    expect(await store.list(ownedBy(""), { limit: 9 })).toEqual([]);
    expect(await store.list({ from: "h", to: "i" }, { limit: 9 })).toEqual([]);
    expect(await store.list(ALL_WORK, { limit: 9 })).toEqual([]);
  });
});

describe("the thread that renews leases", () => {
  /** Runs the program of the thread with a store, and collects its messages. */
  function startHeartbeat(store: { now(): Promise<number>; commit(commit: Commit): Promise<void> }): {
    send: (command: HeartbeatCommand) => void;
    told: HeartbeatMessage[];
    ended: Promise<void>;
  } {
    const { port1, port2 } = new MessageChannel();
    const told: HeartbeatMessage[] = [];
    port1.on("message", (message: HeartbeatMessage) => told.push(message));
    const ended = new Promise<void>((end) => {
      const openStore = async (): Promise<Store> => ({ close: async () => {}, ...store }) as unknown as Store;
      runHeartbeat(
        { url: "", options: {}, key: "h", lease: 100, every: 10, process: thisProcess() },
        { port: port2, openStore, end },
      );
    });
    port1.postMessage("start");
    return { send: (command) => port1.postMessage(command), told, ended: ended.finally(() => port1.close()) };
  }

  it("writes expiry times as integers, which every store can compare", async () => {
    const times: unknown[] = [];
    const commit = async ({ puts = [] }: Commit): Promise<void> => {
      for (const { value } of puts) times.push((JSON.parse(value) as { until: unknown }).until);
    };
    const { send, told, ended } = startHeartbeat({ now: async () => 5, commit });
    await until(async () => told.length >= 3, "the messages of the thread");
    send("close");
    await ended;
    expect(times.length).toBeGreaterThan(0);
    expect(times.every(Number.isInteger)).toBe(true);
  });

  it("continues to renew the lease when the store was away for a while", async () => {
    let commits = 0;
    const commit = async (): Promise<void> => {
      if (commits++ < 2) throw new Error("away");
    };
    const { send, told, ended } = startHeartbeat({ now: async () => 0, commit });
    await until(async () => told.length >= 3, "the messages of the thread");
    expect(told.slice(0, 3)).toEqual(["ready", { error: new Error("away") }, { error: new Error("away") }]);
    await until(async () => told.length > 3, "the lease to be renewed");
    send("close");
    await ended;
    // From then on it reports each renewal of the lease.
    for (const { began, durable } of told.slice(3) as { began: Moment; durable: Moment }[]) {
      expect(durable.ticks).toBeGreaterThanOrEqual(began.ticks);
    }
  });

  it("ends when it is closed, although each renewal takes longer than the interval between two", async () => {
    // Deliberately a time: four times the interval.
    const commit = (): Promise<void> => sleep(40);
    const { send, told, ended } = startHeartbeat({ now: async () => 0, commit });
    await until(async () => told.length >= 3, "the messages of the thread");
    send("close");
    await ended;
  });
});

it("a worker starts the next turn at once if it found the queue entry before the previous turn had ended in its own process", async () => {
  // By this clock no reservation ever expires.
  const store = await openStore("memory:", { now: () => Date.parse("2026-01-01T00:00:00Z") });
  const sp = await Savepoint.open(store);
  const chat = defineAgent({
    name: "chat",
    initial: (input: string) => ({ heard: [input] }),
    receive: (state, input: string) => void state.heard.push(input),
    step: async (run) => run.complete(run.state.heard.length),
  });
  await sp.enqueue(chat, { session: "s", input: "a" });
  await sp.send("s", "b");
  let looks = 0;
  const reserve = store.reserve?.bind(store);
  store.reserve = (...given) => {
    looks++;
    return reserve?.(...given) ?? Promise.resolve([]);
  };
  // The commit that ends a turn is applied, and acknowledged only when the worker has found the next turn.
  const commit = store.commit.bind(store);
  store.commit = async (wanted) => {
    const before = looks;
    const committed = await commit(wanted);
    const isTurnOver = wanted.puts?.some(({ key }) => key.startsWith(ALL_WORK.from));
    while (isTurnOver && looks < before + 2) await new Promise(setImmediate);
    return committed;
  };
  const worker = sp.worker([chat], { ...options, poll: 10 });
  await worker.start();
  await until(
    async () => (await sp.session<{ heard: string[] }>("s").latest())?.state.heard[1] === "b",
    "the second turn",
  );
  await until(isDone(sp, "s"), "the session to be completed");
  await worker.stop();
  await sp.close();
});
