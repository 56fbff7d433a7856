/** Retention policies and runs: the checkpoints of a run are limited like all others, and no step loses its boundary. */
import { describe, expect, it } from "vitest";
import { defineAgent } from "../../src/index.js";
import { ALL_KINDS, interruptIn, useLab, World } from "./lab.js";

describe.each(ALL_KINDS)("a run under a retention policy on $name", (kind) => {
  const lab = useLab(kind);

  const counter = (world: World) =>
    defineAgent({
      name: "counter",
      strategy: "everyStep",
      loop: false,
      initial: (steps: number) => ({ left: steps, done: 0 }),
      receive: (state, steps: number) => ({ ...state, left: steps }),
      async step(run) {
        if (run.state.left === 0) return run.complete(run.state.done);
        await run.tool({ id: `c${run.state.done}`, name: "work" }, () => world.do(`work ${run.state.done}`, "done"), {
          onUnknown: "retry",
        });
        run.state.left--;
        run.state.done++;
        return undefined;
      },
    });

  it("keeps no more checkpoints than the policy allows, after every step and every input", async () => {
    const sp = await lab.open();
    await sp.retention.set({ agent: "counter" }, { keepLast: 2 });
    const most = { count: 0 };
    const agent = counter(new World());
    const counts: Promise<void>[] = [];
    sp.on("run", ({ type }) => {
      if (type !== "step") return;
      counts.push(
        sp.stats().then(({ checkpoints }) => {
          most.count = Math.max(most.count, checkpoints);
        }),
      );
    });
    for (const input of [5, 4, 3]) {
      expect(await sp.run(agent, { session: "s", input, key: `${input}` })).toMatchObject({ status: "completed" });
      expect((await sp.stats()).checkpoints).toBe(2);
    }
    await Promise.all(counts);
    // The next step may have been saved before the count; the checkpoint that it replaces is removed after it.
    expect(most.count).toBeLessThanOrEqual(3);
    expect((await sp.session<{ done: number }>("s").latest())?.state.done).toBe(12);
  });

  it("resumes after a crash from the boundary of its step, although another process saves and prunes meanwhile", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    await sp.retention.set({}, { keepLast: 1, ttl: 1 });
    const world = new World();
    const agent = counter(world);
    await interruptIn(lab, sp, agent, 6, world, "work 3");
    const side = await other.session("s").fork((await other.session("s").head())?.id ?? "", { branch: "side" });
    for (let n = 0; n < 5; n++) await side.save({ left: 0, done: n });
    await other.retention.apply();
    const result = await other.run(agent, { session: "s", input: 6 });
    expect(result).toMatchObject({ status: "completed", output: 6 });
    expect([0, 1, 2, 4, 5].map((n) => world.count(`work ${n}`))).toEqual([1, 1, 1, 1, 1]);
  });
});
