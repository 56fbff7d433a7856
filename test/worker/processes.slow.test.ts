/** Workers in their own processes that are killed, frozen or stopped, and sessions that kill them. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { until } from "../support/until.mjs";

const program = fileURLToPath(new URL("./child.mjs", import.meta.url));

interface Counting {
  n: number;
  by: number[];
}

/** The duration of one count if nothing is to happen to the worker meanwhile, in milliseconds. */
const QUICKLY = 1;

const KINDS = [
  { name: "sqlite:", url: (folder: string) => `sqlite:${join(folder, "store.db")}`, remove: async () => {} },
  { name: "postgres:", url: () => newPostgresUrl(), remove: dropSchema },
];

describe.each(KINDS)("workers on $name", (kind) => {
  let folder: string;
  let url: string;
  let sp: Savepoint;
  const children: WorkerChild[] = [];
  beforeEach(async () => {
    folder = await makeFolder();
    url = kind.url(folder);
    sp = await Savepoint.open(url, { durability: "process" });
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await child.end("SIGKILL");
    await sp.close();
    await kind.remove(url);
    await removeFolder(folder);
  });

  const start = (lease = "30s", pace = 40): WorkerChild => {
    const child = new WorkerChild(url, folder, lease, pace);
    children.push(child);
    return child;
  };
  /** Waits until the given number of steps of a session are done. */
  const untilCounted = (n: number, ...sessions: string[]): Promise<unknown> =>
    until(
      async () => (await Promise.all(sessions.map(stateOf))).every((state) => (state?.n ?? 0) >= n),
      `${sessions.join()} to be at ${n}`,
    );
  const stateOf = async (session: string): Promise<Counting | undefined> =>
    (await sp.session<Counting>(session).latest())?.state;
  /** Every number once, except for the one at which a worker died. */
  const expectCounted = (session: string, workers: number): void => {
    const lines = readFileSync(join(folder, session), "utf8").trim().split("\n");
    const numbers = lines.map((line) => Number(line.split(" ")[0]));
    expect([...new Set(numbers)]).toEqual(Array.from({ length: 30 }, (_, index) => index + 1));
    expect(lines.length - 30).toBeLessThanOrEqual(workers - 1);
  };

  it("the sessions of a killed worker are resumed by another worker where they were", async () => {
    await sp.enqueue("counting", { session: "a", input: null });
    const first = start();
    await untilCounted(5, "a");
    await first.end("SIGKILL");
    // On the same machine its death is detected at once, however long its lease is.
    const second = start("30s", QUICKLY);
    await untilCounted(30, "a");
    expect((await stateOf("a"))?.by.at(-1)).toBe(second.pid);
    expectCounted("a", 2);
  });

  it("a frozen worker loses its sessions to another worker, and cannot write when it wakes up", async () => {
    for (const session of ["a", "b"]) await sp.enqueue("counting", { session, input: null });
    // Slowly: the worker must be frozen before it is done, even if this process is delayed.
    const first = start("1s", 150);
    await untilCounted(3, "a", "b");
    first.signal("SIGSTOP");
    const second = start("1s", QUICKLY);
    // A worker that is frozen in the middle of a write keeps an embedded store locked: then freeze it at another moment.
    while (!(await soon(async () => (await stateOf("a"))?.by.at(-1) === second.pid))) {
      first.signal("SIGCONT");
      // Deliberately a time: any other moment will do.
      await sleep(20);
      first.signal("SIGSTOP");
    }
    await untilCounted(30, "a", "b");
    first.signal("SIGCONT");
    await until(() => first.printed.includes("lost"), "the first worker to notice that it has lost its lease");
    for (const session of ["a", "b"]) {
      const { n, by } = (await stateOf(session)) as Counting;
      expect([n, by.length, new Set(by).size]).toEqual([30, 30, 2]);
      expectCounted(session, 2);
    }
  });

  it("a worker that receives SIGTERM releases its sessions at the end of a step, and exits", async () => {
    await sp.enqueue("counting", { session: "a", input: null });
    const first = start();
    await untilCounted(5, "a");
    expect(await first.end("SIGTERM")).toBe("SIGTERM");
    // No process owns the session, and no effect was interrupted.
    expect(await sp.sessions.load("a")).toMatchObject({ status: "interrupted" });
    start("30s", QUICKLY);
    await untilCounted(30, "a");
    expectCounted("a", 1);
  });

  it("a session that kills one worker after another is quarantined, with its reason", async () => {
    await sp.enqueue("deadly", { session: "bad", input: null });
    for (let deaths = 0; deaths < 3; deaths++) expect(await start().ended).toBe("SIGKILL");
    const last = start("30s", QUICKLY);
    await until(() => last.printed.includes("quarantined bad"), "the session to be quarantined");
    expect(await sp.sessions.load("bad")).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("3 processes in a row have crashed") as string,
    });
    await sp.enqueue("counting", { session: "good", input: null });
    await untilCounted(30, "good");
  });
});

class WorkerChild {
  readonly ended: Promise<NodeJS.Signals | number | null>;
  printed = "";
  readonly #process: ChildProcess;

  constructor(url: string, folder: string, lease: string, pace: number) {
    const given = [program, url, folder, lease, String(pace)];
    this.#process = spawn(process.execPath, given, { stdio: ["ignore", "pipe", "inherit"] });
    this.#process.stdout?.setEncoding("utf8").on("data", (text: string) => (this.printed += text));
    this.ended = new Promise((resolve) => {
      this.#process.on("close", (code, signal) => resolve(signal ?? code));
    });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  end(signal: NodeJS.Signals): Promise<NodeJS.Signals | number | null> {
    this.signal(signal);
    return this.ended;
  }
}

/** Whether a condition becomes true within ten seconds. */
async function soon(holds: () => Promise<boolean>): Promise<boolean> {
  const patience = Date.now() + 10_000;
  while (Date.now() < patience) {
    if (await holds()) return true;
    await sleep(20);
  }
  return false;
}
