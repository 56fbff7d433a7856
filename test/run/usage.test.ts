/** The usage of models is counted exactly once, also after interruptions. */
import { describe, expect, it } from "vitest";
import { defineAgent, type LlmOptions } from "../../src/index.js";
import { interruptIn, KINDS, once, transient, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };

describe.each(KINDS)("usage on $name", (kind) => {
  const lab = useLab(kind);

  it("usage adds up over steps and is counted once after an interruption", async () => {
    const world = new World();
    const usages = [
      { inputTokens: 3, outputTokens: 4 },
      { total_tokens: 10, cost: 0.5 },
      { promptTokens: 1, completionTokens: 1, cost: 0.25 },
    ];
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0, seen: [] as unknown[] }),
      async step(run) {
        const usage = usages[run.state.n++];
        if (!usage) return run.complete(run.usage);
        await run.llm(() => world.do(`model ${run.state.n}`, { usage }));
        run.state.seen.push(run.usage.tokens);
        await run.effect("pause", () => world.do(`pause ${run.state.n}`));
        return undefined;
      },
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "pause 2");
    const sp = await lab.open();
    const result = await sp.run(agent, GO);
    expect(result.usage).toEqual({ tokens: 19, cost: 0.75 });
    expect(result.output).toEqual({ tokens: 19, cost: 0.75 });
    expect(result.state.seen).toEqual([7, 17, 19]);
    expect((await sp.session("s").head())?.usage).toEqual({ tokens: 19, cost: 0.75 });
    expect((await (await lab.open()).run(agent, GO)).usage).toEqual({ tokens: 19, cost: 0.75 });
    expect(world.count("model 2")).toBe(1);
  });

  it("the usage of a reply can be given by a function", async () => {
    const agent = once(async (run) => {
      await run.llm(() => ({ price: 3 }), { usage: ({ price }) => ({ cost: price, tokens: 1 }) });
      return run.usage;
    });
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ output: { tokens: 1, cost: 3 }, usage: { tokens: 1, cost: 3 } });
  });

  const wrong: { what: string; usage: NonNullable<LlmOptions["usage"]> }[] = [
    { what: "is no number", usage: () => ({ tokens: Number.NaN }) },
    {
      what: "cannot be computed",
      usage: () => {
        throw new Error("no idea");
      },
    },
  ];

  it.each(wrong)("a reply is recorded although its usage $what", async ({ usage }) => {
    const sp = await lab.open();
    const world = new World();
    let failures = 1;
    const agent = once(async (run) => {
      const reply = await run.llm(() => world.do("model", "reply"), { usage });
      if (failures-- > 0) throw transient("a reason of its own");
      return reply;
    }, 3);
    const result = await sp.run(agent, GO);
    expect(result).toMatchObject({ status: "completed", output: "reply", usage: { tokens: 0, cost: 0 } });
    expect(world.count("model")).toBe(1);
  });
});
