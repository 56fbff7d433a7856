// enqueue and worker on the command line, on SQLite and PostgreSQL.
import { beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { QUIET } from "../damage/world.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { BUILT_LIBRARY, LIBRARY, linesOf, start } from "./command.js";
import { usePlace } from "./place.js";

const tool = usePlace();
let agents: readonly string[] = [];

const agentsFor = (library: string): string[] => [
  "--agents",
  tool().file(
    "agents.mjs",
    `
import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent } from "${library}";

export const shop = defineAgent({
  name: "shop",
  strategy: "everyStep",
  initial: (input) => ({ ...input, n: 0 }),
  async step(run) {
    await run.effect("work", () => sleep(run.state.slow ?? 0));
    run.state.n += 1;
    if (run.state.fails) return run.fail("out of stock");
    if (run.state.n >= (run.state.steps ?? 1)) return run.complete(run.state.n);
  },
});
`,
  ),
];

beforeEach(() => {
  agents = agentsFor(LIBRARY);
});

describe("savepoint enqueue", () => {
  const enqueue = (...more: string[]): string[] => ["enqueue", "shop", "--session", "order-88", ...more];

  it("enqueue adds a session to the queue once", async () => {
    const asked = { session: "order-88", agent: "shop" };
    expect(await tool().json(enqueue("--input", "{}"))).toEqual({ ...asked, enqueued: true });
    expect(await tool().json(enqueue("--input", "{}"))).toEqual({ ...asked, enqueued: false });
    const text = await tool().on(enqueue("--input", "{}"));
    expect(text.stdout).toContain("order-88 exists already");
    expect(await tool().json(["sessions"])).toMatchObject([{ id: "order-88", status: "queued" }]);
  });

  it("enqueue rejects missing and invalid arguments", async () => {
    expect(await tool().fail(["enqueue", "shop", "--input", "{}"], 2)).toMatchObject({ code: "USAGE" });
    expect(await tool().fail(enqueue(), 2)).toMatchObject({ code: "USAGE" });
    expect((await tool().on(enqueue("--input", "{"))).code).toBe(2);
    expect((await tool().on(enqueue("--input", "{}", "--run-at", "soon"))).code).toBe(2);
    expect(await tool().fail(enqueue("--input", "{}", "--priority", "10"), 2)).toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    await tool().json(enqueue("--input", "{}", "--run-at", "1h", "--priority", "9"));
    expect(await tool().fail(enqueue("--input", "[]"), 1)).toMatchObject({ code: "INPUT_MISMATCH" });
  });
});

describe("savepoint worker", () => {
  it("worker requires agents", async () => {
    expect(await tool().fail(["worker"], 2)).toMatchObject({ code: "USAGE" });
    expect(await tool().fail(["worker", ...agents, "--concurrency", "0"], 2)).toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  it("worker runs what is queued, reports the results and ends on a signal", async () => {
    await tool().json(["enqueue", "shop", "--session", "good", "--input", '{"steps":2}']);
    await tool().json(["enqueue", "shop", "--session", "bad", "--input", '{"fails":true}']);
    const worker = tool().spawnOn(["--jsonl", "worker", ...agentsFor(BUILT_LIBRARY), "--name", "one"]);
    await worker.seen(/"good".*completed/);
    await worker.seen(/"bad".*failed.*out of stock/);
    worker.child.kill("SIGTERM");
    const { code, stdout } = await worker.ended;
    expect(code).toBe(0);
    expect(
      linesOf(stdout)
        .map((line) => (JSON.parse(line) as { session: string }).session)
        .sort(),
    ).toEqual(["bad", "good"]);
  });

  it("worker releases its sessions at the end of a step, and another worker resumes them", async () => {
    await tool().json(["enqueue", "shop", "--session", "long", "--input", '{"steps":8,"slow":100}']);
    const first = tool().startOn(["worker", ...agents, "--verbose"]);
    await first.seen(/step 2 completed/);
    first.interrupt();
    expect((await first.ended).code).toBe(0);
    expect(await tool().json(["sessions"])).toMatchObject([{ id: "long", status: "interrupted" }]);
    const second = tool().startOn(["worker", ...agents]);
    await second.seen(/long {2}resumed/);
    await second.seen(/long {2}completed/);
    second.interrupt();
    expect((await second.ended).code).toBe(0);
    const { steps } = await tool().json<{ steps?: number }>(["run", "shop", ...agents, "--session", "long"]);
    expect(steps).toBe(8);
  });
});

describe("the command line on PostgreSQL", () => {
  it("queueing, running, reading, time travel and maintenance work as on any store", async () => {
    const url = newPostgresUrl();
    const json = async (...args: string[]): Promise<unknown> => {
      const ended = await tool().run(["--store", url, "--json", ...args]);
      expect(ended.code, `${args.join(" ")}\n${ended.stderr}`).toBe(0);
      // No output contains the password.
      expect(ended.stdout + ended.stderr).not.toContain(new URL(url).password);
      return JSON.parse(ended.stdout) as unknown;
    };
    try {
      await json("enqueue", "shop", "--session", "order-88", "--input", '{"steps":3}');
      const worker = start(["--store", url, "worker", ...agents], { cwd: tool().folder });
      await worker.seen(/order-88 {2}completed/);
      worker.interrupt();
      expect((await worker.ended).code).toBe(0);
      expect(await json("sessions")).toMatchObject([{ id: "order-88", status: "completed" }]);
      expect(await json("log", "order-88")).toHaveLength(4);
      await json("fork", "order-88#1");
      await json("rewind", "order-88#2", "--yes");
      expect(await json("verify", "--deep")).toMatchObject({ ok: true });
      await json("prune", "--keep-last", "1", "--yes");
      await json("compact");
      await json("stats");
      await json("export", "order-88", "--out", tool().path("bundle"));
      await tool().leave(async () => {});
      await tool().json(["import", tool().path("bundle")]);
      const copy = await Savepoint.open(tool().url, { on: QUIET });
      expect((await copy.session("order-88").latest())?.state).toMatchObject({ n: expect.any(Number) as number });
      await copy.close();
    } finally {
      await dropSchema(url);
    }
  });

  it("an unreachable server is reported without its password", async () => {
    const ended = await tool().run(["--store", "postgres://me:hunter2@127.0.0.1:1/none", "--json", "sessions"]);
    expect(ended.code).toBe(10);
    expect(ended.stderr).toContain("UNAVAILABLE");
    expect(ended.stdout + ended.stderr).not.toContain("hunter2");
  });
});
