// The hints of several verbs: what they suggest must work for the session that they are about.
import { describe, expect, it } from "vitest";
import { defineAgent } from "../../src/index.js";
import { linesOf, withoutAges } from "./command.js";
import { usePlace } from "./place.js";

const tool = usePlace();
const hintOf = async (...args: string[]): Promise<string> => (await tool().on(args)).stderr.trimEnd();

/** Asks in the first step, and completes in the second. */
const shop = defineAgent({
  name: "shop",
  initial: () => ({ n: 0 }),
  async step(run) {
    if (run.state.n++ > 0) return run.complete("done");
    await run.tool({ id: "call-1", name: "charge", arguments: {} }, () => "charged");
    return undefined;
  },
});

describe("how to resume", () => {
  it("a session that was rewound is resumed by running it again, without an option", async () => {
    tool().file("agents.mjs", "");
    await tool().leave((sp) => sp.run(shop, { session: "order-88", input: {} }));
    await tool().on(["rewind", "order-88#1", "--yes"]);
    expect(await tool().json(["status", "order-88"])).toMatchObject({ status: "halted" });
    expect(await hintOf("status", "order-88")).toBe("To resume, run your program again");
    const result = await tool().leave((sp) => sp.run(shop, { session: "order-88", input: {} }));
    expect(result).toMatchObject({ status: "completed" });
  });

  it("a run that has failed on purpose is resumed with { resume: true }", async () => {
    const failing = defineAgent({ name: "f", initial: () => ({}), step: async (run) => run.fail("no stock") });
    await tool().leave((sp) => sp.run(failing, { session: "order-88", input: {} }));
    expect(await hintOf("status", "order-88")).toContain("{ resume: true }");
  });

  it("a rewind to the checkpoint at which a run has ended restores its status, so resuming needs { resume: true }", async () => {
    let isBroken = true;
    const buggy = defineAgent({
      name: "b",
      initial: () => ({}),
      async step(run) {
        await run.llm(() => "hello");
        if (isBroken) throw new TypeError("a bug");
        return run.complete("done");
      },
    });
    const run = (resume: boolean) =>
      tool().leave((sp) => {
        sp.on("runError", () => {});
        return sp.run(buggy, { session: "order-88", input: {}, ...(resume && { resume }) });
      });
    await run(false);
    expect(await hintOf("status", "order-88")).toBe("To resume it after a fix of the agent, run your program again");
    await tool().on(["rewind", "order-88#1", "--yes"]);
    expect(await hintOf("status", "order-88")).toContain("{ resume: true }");
    isBroken = false;
    expect(await run(false)).toMatchObject({ status: "failed", needsResume: true });
    expect(await run(true)).toMatchObject({ status: "completed" });
  });

  it("recover is not suggested for a loop of another SDK, which it cannot resume", async () => {
    tool().file("agents.mjs", "");
    await tool().leave(async (sp) => {
      const run = await sp.openRun({ session: "chat-1", turn: "m1", initial: () => ({}) });
      await run.llm(() => "hello");
      await run.release();
    });
    expect(await tool().json(["status", "chat-1"])).toMatchObject({ status: "interrupted", queue: { external: true } });
    expect(await hintOf("status", "chat-1")).toBe("To resume, run your program again");
  });

  it("a queued session is started by a worker with the agents in this folder", async () => {
    await tool().leave((sp) => sp.enqueue("shop", { session: "order-88", input: {} }));
    expect(await hintOf("status", "order-88")).toBe("To run it, start a worker for agent shop");
    tool().file("agents.mjs", "");
    const command = `savepoint worker --agents ./agents.mjs --store ${tool().url}`;
    expect(await hintOf("status", "order-88")).toBe(`To run it, start a worker for agent shop: ${command}`);
  });

  it("an answered session is resumed by recover", async () => {
    tool().file("agents.mjs", "");
    const asking = defineAgent({
      name: "asking",
      initial: () => ({}),
      step: async (run) => run.complete(await run.ask("Refund?")),
    });
    await tool().leave((sp) => sp.run(asking, { session: "order-88", input: {} }));
    const hint = "To resume, run your program again, or: savepoint recover --agents ./agents.mjs";
    expect(await hintOf("answer", "order-88", "--text", "yes")).toContain(hint);
    expect(await hintOf("status", "order-88")).toContain(hint);
    expect(await hintOf("answer", "order-88", "--text", "yes")).toBe(
      'error Session "order-88" does not wait for an answer. "savepoint status order-88" prints its status.',
    );
  });
});

describe("what log and journal print of a run that has failed", () => {
  it("the first and the second attempt of a step are distinguished, and nothing is reported as running", async () => {
    let isBroken = true;
    const buggy = defineAgent({
      name: "b",
      initial: () => ({}),
      async step(run) {
        const calls = [{ id: "c1", name: "pay", arguments: { order: 88 } }];
        await run.llm(() => ({ role: "assistant", content: "", toolCalls: calls }));
        await run.tool({ id: "c1", name: "pay", arguments: { order: 88 } }, () => "paid");
        if (isBroken) throw new TypeError("a bug");
        return run.complete("done");
      },
    });
    const execute = () =>
      tool().leave((sp) => {
        sp.on("runError", () => {});
        return sp.run(buggy, { session: "order-88", input: {} });
      });
    await execute();
    isBroken = false;
    await execute();
    const [, ...lines] = linesOf(withoutAges(await tool().text(["log", "order-88"])));
    expect(lines.map((line) => line.slice(10).replace(/\d+ ms/, "0 ms"))).toEqual([
      "#2  step 1  completed  0s ago  (main)",
      "#1  step 1  failed  0s ago  pay  0 ms  TypeError: a bug",
      "#0  step 0  0s ago  start",
    ]);
    const [, reply] = linesOf(await tool().text(["journal", "order-88"]));
    expect(reply).toMatch(/^1\.0 .* llm +calls pay\(\{"order":88\}\)$/);
  });
});

describe("other hints", () => {
  it("doctor counts statuses in the order of status, and suggests no resume if nothing is interrupted", async () => {
    const failing = defineAgent({ name: "f", initial: () => ({}), step: async (run) => run.fail("no stock") });
    await tool().leave(async (sp) => {
      await sp.run(shop, { session: "order-88", input: {} });
      await sp.run(failing, { session: "order-89", input: {} });
    });
    const { stdout } = await tool().on(["doctor"]);
    expect(stdout).toMatch(/^sessions +ok +1 completed, 1 failed$/m);
    expect(stdout).not.toContain("To resume");
  });

  it("one tool call that may be repeated is referred to in the singular", async () => {
    await tool().leave((sp) => sp.run(shop, { session: "order-88", input: {} }));
    const hint = await hintOf("rewind", "order-88#0", "--yes");
    expect(hint).toContain("1 tool call lies after this checkpoint");
    expect(hint).toContain("may make it again, under a new key:");
  });

  it("journal --step names a step without effects", async () => {
    await tool().leave((sp) => sp.run(shop, { session: "order-88", input: {} }));
    expect(await hintOf("journal", "order-88", "--step", "9")).toBe("No effects of step 9 are recorded.");
  });

  it("a missing argument is named, with the command that describes it", async () => {
    const message = 'The argument <checkpoint> is missing. "savepoint show --help" describes it.';
    expect(await tool().fail(["show"], 2)).toMatchObject({ code: "USAGE", message });
  });

  it("a missing store is reported without options that only a program can pass", async () => {
    const store = `sqlite:${tool().path("none.db")}`;
    const missing = `There is no store at ${store}.`;
    const { stderr } = await tool().run(["sessions", "--store", store]);
    expect(stderr).toBe(`error ${missing} Name another store with --store, or create one with "savepoint init".\n`);
    const { stdout } = await tool().run(["doctor", "--store", store]);
    expect(stdout).toContain(`${missing} Run "savepoint init", or pass --store`);
  });
});
