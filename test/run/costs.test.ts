import { describe, expect, it } from "vitest";
import { defineAgent, type OpenRun, type Run, Savepoint } from "../../src/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import { countCommits } from "../support/count-commits.js";

const STEPS = 10;

/** The average number of commits per step, without those that start and end the run. */
async function commitsOf(body: (run: Run<{ done: number }>) => Promise<unknown>): Promise<number> {
  let commits = 0;
  const counted = countCommits(openMemoryStore(), () => commits++);
  const count = async (steps: number): Promise<number> => {
    const agent = defineAgent({
      name: "a",
      loop: false,
      initial: (_input: number) => ({ done: 0 }),
      async step(run) {
        if (run.state.done === steps) return run.complete();
        await body(run);
        run.state.done++;
        return undefined;
      },
    });
    const sp = await Savepoint.open(counted);
    commits = 0;
    await sp.run(agent, { session: `s${steps}`, input: 1 });
    return commits;
  };
  await count(1);
  return ((await count(STEPS)) - (await count(0))) / STEPS;
}

const call = (id: string): { id: string; name: string } => ({ id, name: "tool" });

describe("a step costs", () => {
  it("one commit with a model call: the reply is saved with the state", async () => {
    expect(await commitsOf((run) => run.llm(() => "reply"))).toBe(1);
  });

  it("one commit with a tool that may be repeated", async () => {
    expect(await commitsOf((run) => run.tool(call("c"), () => "result", { onUnknown: "retry" }))).toBe(1);
  });

  it("two commits with a tool that may not be repeated: its intent, and its result with the state", async () => {
    expect(await commitsOf((run) => run.tool(call("c"), () => "result"))).toBe(2);
  });

  it("two commits with a model call and a tool: the reply goes with the intent", async () => {
    const body = async (run: Run<{ done: number }>): Promise<unknown> => {
      await run.llm(() => "reply");
      return run.tool(call("c"), () => "result");
    };
    expect(await commitsOf(body)).toBe(2);
  });

  it("one commit more for each tool in a row: a result goes with the next intent", async () => {
    const body = async (run: Run<{ done: number }>): Promise<void> => {
      for (const id of ["a", "b", "c"]) await run.tool(call(id), () => "result");
    };
    expect(await commitsOf(body)).toBe(4);
  });

  it("two commits with parallel tools that end together: all intents go in one", async () => {
    const body = (run: Run<{ done: number }>): Promise<unknown> =>
      Promise.all(["a", "b", "c"].map((id) => run.tool(call(id), () => "result")));
    expect(await commitsOf(body)).toBeLessThanOrEqual(3);
  });

  it("no commit for the time, a random number and an id", async () => {
    const body = async (run: Run<{ done: number }>): Promise<void> => {
      for (let times = 0; times < 5; times++) [run.now(), run.random(), run.uuid()].join();
      await run.llm(() => "reply");
    };
    // Their values are durable before the model is called.
    expect(await commitsOf(body)).toBe(2);
  });
});

/** The number of commits of a turn of an external loop after it was opened and before it ends, with so many steps. */
async function commitsOfTurn(
  steps: number,
  step: (run: OpenRun<object>, id: string) => Promise<unknown>,
): Promise<number> {
  let commits = 0;
  const sp = await Savepoint.open(countCommits(openMemoryStore(), () => commits++));
  const run = await sp.openRun({ session: "s", initial: () => ({}) });
  commits = 0;
  for (let index = 0; index < steps; index++) await step(run, `c${index}`);
  const before = commits;
  await run.complete();
  await sp.close();
  return before;
}

describe("a step of an external loop costs", () => {
  it("two commits with a model call and a tool, if it waits for neither the reply nor the checkpoint", async () => {
    const commits = await commitsOfTurn(STEPS, async (run, id) => {
      await run.llm(() => "reply", { input: id, early: true });
      await run.tool(call(id), () => "result");
      run.state = { id };
      void run.stepDone();
    });
    expect(commits).toBe(2 * STEPS);
  });

  it("four commits, if it waits for everything", async () => {
    const commits = await commitsOfTurn(STEPS, async (run, id) => {
      await run.llm(() => "reply", { input: id });
      await run.tool(call(id), () => "result");
      run.state = { id };
      await run.stepDone();
    });
    expect(commits).toBe(4 * STEPS);
  });
});
