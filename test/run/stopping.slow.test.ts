/** Runs with an effect that never ends: stopping them takes the grace period that the effect has to end. */
import { describe, expect, it } from "vitest";
import { defineAgent } from "../../src/index.js";
import { createGate, openLab, orHung, World } from "./lab.js";

const GO = { session: "s", input: "go" };

const never = <T>(): Promise<T> => new Promise<T>(() => {});

/** Reaches its limit while a tool never ends. */
const greedy = (world: World) =>
  defineAgent({
    name: "greedy",
    initial: (_input: string) => ({}),
    limits: { tokens: 5 },
    async step(run) {
      void run.tool({ id: "1", name: "endless" }, () => (world.log.push("endless"), never<string>()));
      await run.llm(() => "first", { usage: () => ({ tokens: 10 }) });
      world.log.push("at the limit");
      await run.llm(() => world.do("second", "second"));
      return run.complete();
    },
  });

describe.concurrent("stopping a run that hangs", () => {
  it("a run that has reached its limit can be closed while a tool never ends", async (context) => {
    const world = new World();
    const lab = await openLab(context);
    const sp = await lab.open();
    const handle = await sp.start(greedy(world), GO);
    handle.result().catch(() => {});
    await world.reached("at the limit");
    await lab.idle();
    expect(await orHung(sp.close())).toBeUndefined();
    expect(world.count("second")).toBe(0);
  });

  it("a run that has reached its limit can be cancelled while a tool never ends", async (context) => {
    const world = new World();
    const lab = await openLab(context);
    const sp = await lab.open();
    const handle = await sp.start(greedy(world), GO);
    await world.reached("at the limit");
    await lab.idle();
    expect(await orHung(Promise.resolve(handle.cancel("enough")))).not.toBe("hung");
    expect(await orHung(handle.result())).toMatchObject({ status: "halted" });
    expect(world.count("second")).toBe(0);
  });

  it("closing does not wait for an initial function that never ends", async (context) => {
    const sp = await (await openLab(context)).open();
    const asked = createGate();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => (asked.open(), never<object>()),
      step: (run) => run.complete(),
    });
    sp.run(agent, GO).catch(() => {});
    await asked.promise;
    expect(await orHung(sp.close())).toBeUndefined();
  });
});
