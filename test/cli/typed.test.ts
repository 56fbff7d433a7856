/** Verbs and names as people type them: ls, status, queue, workers, --since, order-88~1, large states, colours, hints. */
import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { createGate } from "../support/gate.js";
import { errorOf, inTerminal, linesOf, withoutAges } from "./command.js";
import { createPlace, useFilledPlace } from "./place.js";

const shop = defineAgent({
  name: "shop",
  initial: (how: string) => ({ how }),
  async step(run) {
    if (run.state.how === "asks") await run.ask("Refund Anna?");
    if (run.state.how === "fails") return run.fail("out of stock");
    return run.complete("done");
  },
});

/** Leaves a run unfinished: closing the store releases it. */
async function interrupt(sp: Savepoint, session: string): Promise<void> {
  const began = createGate();
  const hanging = defineAgent({
    name: "shop",
    initial: () => ({}),
    step: (run) => run.effect("work", () => (began.open(), new Promise<never>(() => {}))),
  });
  await sp.start(hanging, { session, input: undefined });
  await began.promise;
}

describe.concurrent("the state of a store", () => {
  const place = useFilledPlace(async (sp) => {
    await sp.run(shop, { session: "asks", input: "asks" });
    await sp.run(shop, { session: "fails", input: "fails" });
    await sp.run(shop, { session: "done", input: "" });
    await sp.enqueue("shop", { session: "queued", input: "" });
    await interrupt(sp, "left");
  });

  it("ls lists the sessions", async () => {
    expect(withoutAges(await place().text(["ls"]))).toBe(withoutAges(await place().text(["sessions"])));
  });

  it("status counts the sessions by status, and lists questions, interrupted sessions, and those that failed", async () => {
    const { stdout, stderr, code } = await place().on(["status"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^sessions +5 sessions: 1 queued, 1 waiting, 1 interrupted, 1 completed, 1 failed$/m);
    expect(stdout).toMatch(/^ {2}asks {2}shop {2}asks: Refund Anna\?$/m);
    expect(stdout).toMatch(/^Interrupted\n {2}left /m);
    expect(stdout).toMatch(/^Failed\n {2}fails {2}shop /m);
    expect(stderr).toContain("savepoint status fails");
    expect(stderr).toContain(`To answer: savepoint answer asks --store ${place().url}`);
    expect(stdout + stderr).not.toMatch(/undefined|agents\.mjs/);
    expect(await place().json(["status"])).toMatchObject({
      sessions: 5,
      byStatus: { queued: 1, waiting: 1, interrupted: 1, completed: 1, failed: 1 },
      questions: [{ session: "asks", text: "Refund Anna?" }],
      interrupted: ["left"],
      lastShutdown: { clean: true },
    });
  });

  it("status of a session shows its question, its reason or its place in the queue", async () => {
    const status = async (id: string): Promise<string> => (await place().on(["status", id])).stdout;
    expect(await status("asks")).toMatch(/^question +Refund Anna\?$/m);
    expect(await status("fails")).toMatch(/^reason +out of stock$/m);
    expect(await status("queued")).toMatch(/^queue +number 1 of agent shop$/m);
    expect(await status("left")).toMatch(/^queue +interrupted; a worker can resume it$/m);
    expect(await status("done")).not.toMatch(/undefined|queue/);
    expect((await place().on(["status", "don"])).stderr).toContain('Did you mean "done"?');
  });

  it("stats counts the sessions that sessions lists", async () => {
    const listed = await place().json<unknown[]>(["sessions"]);
    expect(await place().json(["stats"])).toMatchObject({ sessions: listed.length, byStatus: { completed: 1 } });
    expect(await place().text(["stats"])).toMatch(/^sessions +5 sessions: 1 queued, /m);
  });

  it("queue lists what no process runs, with hints that can be typed", async () => {
    const { stdout, stderr } = await place().on(["queue"]);
    expect(linesOf(stdout).map((line) => line.trim().split(/ {2,}/).slice(0, 4).join(" "))).toEqual([
      "# SESSION AGENT STATE",
      "1 queued shop queued",
      "left shop interrupted now",
      "asks shop waiting asks: Refund Anna?",
    ]);
    expect(stderr).toContain("savepoint answer asks");
    expect(await place().json(["queue", "--state", "waiting"])).toMatchObject([
      { sessionId: "asks", state: "waiting" },
    ]);
    expect(await place().json(["queue", "--agent", "other"])).toEqual([]);
  });

  it("a hint names a module with agents only if there is one", async (test) => {
    const own = await createPlace(test).fill((sp) => interrupt(sp, "s"));
    expect((await own.on(["status"])).stderr).toBe("To resume, run your program again\n");
    own.file("agents.mjs", "");
    expect((await own.on(["status"])).stderr).toContain("savepoint recover --agents ./agents.mjs");
  });

  it("workers lists the process that runs a session, until when, and which", async (test) => {
    const own = createPlace(test);
    expect((await own.fill(async () => {}).then(() => own.on(["workers"]))).stderr).toBe(
      "No process runs a session.\n",
    );
    const sp = await own.open();
    await interrupt(sp, "busy");
    expect(await own.text(["workers"])).toMatch(new RegExp(`${process.pid} +alive +expires in \\d+s +1 +busy$`, "m"));
    expect(await own.json(["workers"])).toMatchObject([
      { pid: process.pid, alive: true, runs: [{ sessionId: "busy" }] },
    ]);
    expect(await own.text(["status", "busy"])).toMatch(
      new RegExp(`^owner +process ${process.pid} on .*alive, lease until`, "m"),
    );
  });

  it("--since and --until limit the sessions", async () => {
    expect(await place().json(["sessions", "--since", "1h"])).toHaveLength(5);
    expect(await place().json(["sessions", "--until", "1h"])).toEqual([]);
    expect(await place().json(["sessions", "--since", "2999-01-01"])).toEqual([]);
  });
});

describe.concurrent("relative names", () => {
  const place = useFilledPlace(async (sp) => {
    for (let n = 0; n < 4; n++) await sp.session("order").save({ n, "a/b": n });
    await sp.session("order").fork((await sp.checkpoints.find("order#2"))[0]?.id ?? "", { branch: "what-if" });
    await sp.session("order", { branch: "what-if" }).save({ n: 9 });
    await sp.session("trap").save({ n: 0 });
    await sp.session("trap").save({ n: 1 });
    await sp.session("trap~1").save({ n: 77 });
  });

  it.each([
    ["order~", 2],
    ["order~1", 2],
    ["order~3", 0],
    ["order~1~1", 1],
    ["order#2~1", 1],
    ["order@what-if~1", 2],
    ["order@what-if~2", 1],
    ["order~0", 3],
    ["trap~1", 77],
    ["trap~1~0", 77],
  ])("%s names an ancestor", async (name, n) => {
    expect(await place().json(["show", `${name}:/n`])).toBe(n);
  });

  it("a pointer after a relative name may contain escapes", async () => {
    expect(await place().json(["show", "order~2:/a~1b"])).toBe(1);
    expect(await place().json(["show", "order:/a~1b"])).toBe(3);
  });

  it("an ancestor that does not exist is reported", async () => {
    expect(errorOf(await place().on(["--json", "show", "order~9"]), 4).message).toMatch(
      /order#0 .* is the first checkpoint/,
    );
  });
});

describe.concurrent("large states", () => {
  const messages = Array.from({ length: 2000 }, (_, n) => ({
    role: "user",
    content: `message ${n} ${"word ".repeat(20)}`,
  }));
  const place = useFilledPlace(async (sp) => {
    await sp.session("big").save({ messages, text: "x".repeat(5000) });
    await sp.session("big").save({ messages: [], text: "" });
  });

  it("show prints an outline on a terminal, and everything with --full, in a pipe and as JSON", async () => {
    const show = ["show", "big~1", "--store", place().url];
    const { screen } = await inTerminal(show);
    expect(screen.length).toBeLessThan(5000);
    expect(screen).toContain("… 1,996 more elements");
    expect(screen).toContain("(5,000 characters)");
    expect(screen).toContain("--full");
    expect((await inTerminal([...show, "--full"])).screen).toContain("message 1999 ");
    expect(await place().text(["show", "big~1"])).toContain("message 1999 ");
    expect((await inTerminal([...show, "--json"])).screen).toContain("message 1999 ");
  });

  it("diff prints the first changes on a terminal and everything in a pipe", async () => {
    const diff = ["diff", "big", "--store", place().url];
    const { screen, lines } = await inTerminal(diff);
    expect(lines.length).toBeLessThan(300);
    expect(screen).toContain("more changes. To print all, add --full");
    expect((await inTerminal([...diff, "--full"])).screen).toContain("message 1999 ");
    expect(await place().text(["diff", "big"])).toContain("message 1999 ");
  });
});

describe.concurrent("colours and glyphs", () => {
  const place = useFilledPlace((sp) => sp.session("s").save({}, { status: "failed", reason: `why ${"x".repeat(99)}` }));
  const COLOURED = "\u001b[";

  it.each([
    [{ FORCE_COLOR: "1" }, [], true],
    [{ FORCE_COLOR: "1", NO_COLOR: "1" }, [], true],
    [{ FORCE_COLOR: "1" }, ["--no-color"], false],
    [{ FORCE_COLOR: "0" }, [], false],
    [{ FORCE_COLOR: "0" }, ["--color"], true],
    [{}, [], false],
  ])("a pipe with %j and %j is coloured: %s", async (env, args, isColoured) => {
    const { stdout } = await place().on(["sessions", ...args], { env: env as Record<string, string> });
    expect(stdout.includes(COLOURED)).toBe(isColoured);
  });

  it("a terminal whose locale is not UTF-8 gets ASCII only", async () => {
    for (const args of [["sessions"], ["verify"], ["log", "s"]]) {
      const { screen } = await inTerminal([...args, "--store", place().url], { columns: 60, env: { LC_ALL: "C" } });
      // eslint-disable-next-line no-control-regex -- ASCII with the control characters of a terminal
      expect(screen).toMatch(/^[\u0000-\u007f]*$/);
    }
  });
});

describe.concurrent("delete and import", () => {
  it("delete says how to delete what was named", async (test) => {
    const place = await createPlace(test).fill(async (sp) => {
      await sp.session("order-88").save({});
      await sp.conversations.create({ id: "chat" });
      await sp.enqueue("shop", { session: "queued", input: "" });
    });
    const message = async (...args: string[]): Promise<string> => (await place.fail(["delete", ...args], 2)).message;
    expect(await message()).toContain("--session <id>");
    expect(await message("order-88")).toContain("savepoint delete --session order-88");
    expect(await message("order-88")).toContain("savepoint delete 'order-88#0'".replaceAll("'", ""));
    expect(await message("chat")).toContain("savepoint delete --conversation chat");
    expect(await message("queued")).toContain("savepoint delete --session queued");
  });

  it("import creates the store that --store names, and says what is halted", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.run(shop, { session: "asks", input: "asks" }));
    await place.on(["export", "--session", "asks", "-o", "asks.savepoint"]);
    const target = `sqlite:${place.path("new.db")}`;
    const { stdout, stderr, code } = await place.run(["import", "asks.savepoint", "--store", target]);
    expect(code).toBe(0);
    expect(stderr).toContain(`Created the store ${target}`);
    expect(stdout).toContain("Imported 1 session,");
    expect(stdout).toContain(target);
    expect(stderr).toMatch(/^Halted, because their runs were unfinished: asks$/m);
    expect((await place.run(["import", "asks.savepoint"])).code).toBe(10);
  });
});
