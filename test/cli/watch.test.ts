/** Following sessions as they go on. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, type TestContext } from "vitest";
import { Savepoint } from "../../src/index.js";
import { createPlace, environment, type Place, PROGRAM } from "./cli.js";

/** A watcher that is ended when the test has finished. */
class Watcher {
  readonly lines: string[] = [];
  readonly ended: Promise<number | null>;
  stderr = "";
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;

  constructor(test: TestContext, place: Place, args: readonly string[]) {
    this.#child = spawn(process.execPath, [PROGRAM, "watch", ...args, "--store", place.url], {
      env: environment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    createInterface(this.#child.stdout).on("line", (line) => void this.lines.push(line));
    this.ended = new Promise((resolve) => this.#child.on("close", resolve));
    test.onTestFinished(() => void this.#child.kill("SIGKILL"));
  }

  async until(fits: (lines: readonly string[]) => boolean): Promise<void> {
    for (let n = 0; n < 400 && !fits(this.lines); n++) await sleep(50);
    if (!fits(this.lines)) throw new Error(`only ${JSON.stringify(this.lines)} ${this.stderr}`);
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Nobody reads any more. */
  stopReading(): void {
    this.#child.stdout.destroy();
  }
}

interface Seen {
  readonly session: string;
  readonly type: string;
  readonly status?: string;
  readonly checkpoint?: { readonly seq: number };
}

const parse = (lines: readonly string[]): Seen[] => lines.map((line) => JSON.parse(line) as Seen);

async function openFor({ onTestFinished }: TestContext, place: Place): Promise<Savepoint> {
  const sp = await Savepoint.open(place.url);
  onTestFinished(() => sp.close());
  return sp;
}

describe.concurrent("watch", () => {
  it("tells how a session stands, then what is saved, and ends when the work is over", async (test) => {
    const place = createPlace(test);
    const sp = await openFor(test, place);
    await sp.session("s").save({ n: 0 });
    await sp.session("s").save({ n: 1 });
    const watcher = new Watcher(test, place, ["s", "--jsonl"]);
    await watcher.until((lines) => lines.length === 2);
    await sp.session("s").save({ n: 2 });
    await sp.session("s").save({ n: 3 }, { status: "completed" });
    expect(await watcher.ended).toBe(0);
    expect(parse(watcher.lines).map(({ type, status, checkpoint }) => status ?? `${type} ${checkpoint?.seq}`)).toEqual([
      "checkpoint 1",
      "running",
      "checkpoint 2",
      "checkpoint 3",
      "completed",
    ]);
    expect(watcher.stderr).toBe("");
  });

  it("prints a line each for people, and ends at once where the work is over", async (test) => {
    const place = await createPlace(test).fill((sp) =>
      sp.session("s").save({}, { status: "failed", reason: "no\u001b[31m money" }),
    );
    const { stdout, code } = await place.run(["watch", "s"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\S{8} {2}#0 {2}step 0 {2}failed .*\nfailed {2}no\\u001b\[31m money\n$/);
  });

  it.each(["SIGINT", "SIGTERM"] as const)("ends with 130 when it gets %s, and says so", async (signal) => {
    await withWatcher(["s"], async (watcher) => {
      await watcher.until((lines) => lines.length >= 1);
      watcher.signal(signal);
      expect(await watcher.ended).toBe(130);
      expect(watcher.stderr).toMatch(/Interrupted/);
    });
  });

  it("tells what is new in any session", async (test) => {
    const place = createPlace(test);
    const sp = await openFor(test, place);
    await sp.session("before").save({});
    const watcher = new Watcher(test, place, ["--json"]);
    await saveUntil(sp, "after", () => watcher.lines.length > 0);
    const [first] = parse(watcher.lines);
    expect(first).toMatchObject({ session: "after", type: "checkpoint" });
    expect(parse(watcher.lines).some(({ session }) => session === "before")).toBe(false);
    watcher.signal("SIGINT");
    expect(await watcher.ended).toBe(130);
  });

  it("ends when nobody reads any more", async (test) => {
    const place = createPlace(test);
    const sp = await openFor(test, place);
    await sp.session("s").save({});
    const watcher = new Watcher(test, place, ["s", "--jsonl"]);
    await watcher.until((lines) => lines.length >= 1);
    watcher.stopReading();
    let code: number | null | undefined;
    void watcher.ended.then((ended) => (code = ended));
    await saveUntil(sp, "s", () => code !== undefined);
    expect(code).toBe(0);
  });

  it("ends with 4 where there is no such branch", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("s").save({}));
    const watcher = new Watcher(test, place, ["s", "--branch", "nope"]);
    expect(await Promise.race([watcher.ended, sleep(30_000, "goes on", { ref: false })])).toBe(4);
  });

  it("tells of a session that was begun anew", async (test) => {
    const place = createPlace(test);
    const sp = await openFor(test, place);
    for (let n = 0; n < 5; n++) await sp.session("s").save({ n });
    const watcher = new Watcher(test, place, ["--jsonl"]);
    await saveUntil(sp, "clock", () => watcher.lines.length > 0);
    await sp.sessions.delete("s");
    await sp.session("s").save({ anew: true });
    const isTold = (): boolean => parse(watcher.lines).some(({ session }) => session === "s");
    await saveUntil(sp, "clock", isTold);
    expect(isTold()).toBe(true);
  });
});

/** When a watcher looks cannot be told from outside: something is saved until it has been seen, however busy the machine. */
async function saveUntil(sp: Savepoint, id: string, isSeen: () => boolean): Promise<void> {
  for (let n = 0; n < 160 && !isSeen(); n++) {
    await sp.session(id).save({ n });
    await sleep(250);
  }
}

async function withWatcher(args: readonly string[], work: (watcher: Watcher) => Promise<void>): Promise<void> {
  const ends: (() => unknown)[] = [];
  const test = { onTestFinished: (end: () => unknown) => void ends.push(end) } as unknown as TestContext;
  try {
    const place = await createPlace(test).fill((sp) => sp.session("s").save({}));
    await work(new Watcher(test, place, args));
  } finally {
    for (const end of ends.reverse()) await end();
  }
}
