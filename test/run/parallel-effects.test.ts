/** Effects that a step starts at the same time: the order of their results, and which of them are executed again. */
import { describe, expect, it } from "vitest";
import { defineAgent } from "../../src/index.js";
import { createGate, interruptIn, KINDS, once, transient, until, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };

describe.each(KINDS)("parallel effects on $name", (kind) => {
  const lab = useLab(kind);

  it("parallel effects are replayed in the order in which they ended", async () => {
    for (const order of [
      [0, 1, 2],
      [2, 1, 0],
      [1, 2, 0],
    ]) {
      const world = new World();
      const gates = [createGate<string>(), createGate<string>(), createGate<string>()];
      const session = order.join("");
      const agent = once(async (run) => {
        const ended: string[] = [];
        await Promise.all(
          gates.map(async (gate, index) => {
            const tool = { id: `${index}`, name: "t" };
            const result = await run.tool(tool, () => (world.log.push(`t${index}`), gate.promise));
            ended.push(result);
            // What follows depends on the order in which they ended.
            ended.push(await run.effect(`after ${index}`, () => world.do(`after ${index}`, `after ${index}`)));
          }),
        );
        await run.effect("last", () => world.do("last"));
        return ended;
      });
      const reached = world.hangIn("last");
      await (await lab.open()).start(agent, { session, input: "go" });
      await until(() => world.log.length === 3, "all three tools to begin");
      for (const index of order) {
        gates[index]?.open(`r${index}`);
        await world.reached(`after ${index}`);
      }
      await reached;
      await lab.idle();
      lab.crash();
      const result = await (await lab.open()).run(agent, { session, input: "go" });
      expect(result.output).toEqual(order.flatMap((index) => [`r${index}`, `after ${index}`]));
      expect(world.log).toHaveLength(8);
    }
  });

  it("a race that is replayed has the same winner", async () => {
    const world = new World();
    const [slow, fast] = [createGate<string>(), createGate<string>()];
    const agent = once(async (run) => {
      const winner = await Promise.race([
        run.effect("slow", () => (world.log.push("slow"), slow.promise)),
        run.effect("fast", () => (world.log.push("fast"), fast.promise)),
      ]);
      const after = await run.effect("after", () => world.do("after", `after ${winner}`));
      await run.effect("last", () => world.do("last"));
      return after;
    });
    const reached = world.hangIn("last");
    await (await lab.open()).start(agent, GO);
    await until(() => world.log.length === 2, "both effects to begin");
    fast.open("fast");
    await world.reached("after");
    slow.open("slow");
    await reached;
    await lab.idle();
    lab.crash();
    expect((await (await lab.open()).run(agent, GO)).output).toBe("after fast");
    expect(world.log).toEqual(["slow", "fast", "after", "last", "last"]);
  });

  it("a parallel batch that was interrupted half way resumes with the rest of it", async () => {
    const world = new World();
    const agent = once((run) =>
      Promise.all(
        ["a", "b", "c"].map((id) =>
          run.tool({ id, name: id }, () => world.do(id, `did ${id}`), { onUnknown: "retry" }),
        ),
      ),
    );
    await interruptIn(lab, await lab.open(), agent, "go", world, "b");
    expect((await (await lab.open()).run(agent, GO)).output).toEqual(["did a", "did b", "did c"]);
    expect(world.log).toEqual(["a", "b", "c", "b"]);
  });

  it("effects of a parallel batch that succeeded are not executed again when another one has failed", async () => {
    const world = new World();
    const gate = createGate();
    const agent = defineAgent({
      name: "a",
      retry: { delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        const results = await Promise.all([
          run.tool({ id: "1", name: "ok" }, () => gate.promise.then(() => world.do("ok", "ok"))),
          run.tool({ id: "2", name: "bad" }, () => {
            world.log.push("bad");
            if (world.count("bad") === 1) throw new Error("once");
            return "good";
          }),
        ]);
        return run.complete(results);
      },
    });
    const sp = await lab.open();
    // The other one ends when the failure is recorded.
    sp.on("run", (event) => event.type === "effect" && event.name === "bad" && event.phase === "end" && gate.open());
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: ["ok", "good"] });
    expect(world.count("ok")).toBe(1);
  });

  it.each(["at once", "after the step has failed"])(
    "a race is replayed, and both sides are counted, when the loser ends %s",
    async (when) => {
      const sp = await lab.open();
      const world = new World();
      let failures = 0;
      const agent = once(async (run) => {
        const over = createGate();
        const lose = async (): Promise<string> => {
          world.log.push("y");
          if (when === "after the step has failed") await over.promise;
          return "y";
        };
        const winner = await Promise.race([
          run.llm(() => world.do("x", "x"), { name: "x", usage: () => ({ tokens: 3, cost: 0.25 }) }),
          run.llm(lose, { name: "y", usage: () => ({ tokens: 5, cost: 0.5 }) }),
        ]);
        over.open();
        if (failures-- > 0) throw transient("a reason of its own");
        return winner;
      }, 3);
      const undisturbed = await sp.run(agent, { session: "undisturbed", input: "go" });
      failures = 1;
      const replayed = await sp.run(agent, { session: "replayed", input: "go" });
      for (const result of [undisturbed, replayed]) {
        expect(result).toMatchObject({ status: "completed", output: "x", usage: { tokens: 8, cost: 0.75 } });
      }
      expect(failures).toBe(-1);
      expect([world.count("x"), world.count("y")]).toEqual([2, 2]);
    },
  );

  it("a race has the same winner after a failure and an interruption", async () => {
    const world = new World();
    let failures = 1;
    const over = createGate();
    const agent = once(async (run) => {
      const winner = await Promise.race([
        run.effect("x", () => (world.log.push("x"), over.promise.then(() => "x"))),
        run.effect("y", () => world.do("y", "y")),
      ]);
      over.open();
      if (failures-- > 0) throw transient("a reason of its own");
      return [winner, await run.effect("last", () => world.do("last", "last"))];
    }, 3);
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    expect((await (await lab.open()).run(agent, GO)).output).toEqual(["y", "last"]);
    expect(world.log).toEqual(["x", "y", "last", "last"]);
  });
});
