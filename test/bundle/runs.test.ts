/** Unfinished runs resume in the store that they are imported into, and no recorded effect is executed again. */
import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { interruptIn, KINDS, useLab, World } from "../run/lab.js";
import { exportWithPause } from "./bytes.js";

const agentOf = (world: World, steps = 1) =>
  defineAgent({
    name: "worker",
    initial: (_input: string) => ({ n: 0, answer: undefined as unknown, filler: ["x".repeat(10)] }),
    async step(run) {
      const got = await run.effect(`before-${run.state.n}`, () =>
        world.do(`before-${run.state.n}`, new Map([[1, 2n]])),
      );
      run.state.n += got.size;
      if (run.state.n < steps) return undefined;
      run.state.answer = await run.ask({ text: "May I?", data: { amount: 7n } });
      await run.effect("after", () => world.do("after"));
      return run.complete(run.state.answer);
    },
  });

describe.each(KINDS)("a session with work on $name", (kind) => {
  const [there, here] = [useLab(kind), useLab(kind)];

  async function target(): Promise<Savepoint> {
    const sp = await here.open();
    for (let n = 0; n < 3; n++) await sp.session(`other-${n}`).save(n);
    return sp;
  }

  it("that waits for an answer resumes with it, under its own id or another", async () => {
    const world = new World();
    const a = await there.open();
    const asked = await a.run(agentOf(world, 2), { session: "s", input: "go" });
    const bytes = await a.export({ session: "s" }).bytes();
    const b = await target();
    for (const id of ["s", "t"]) {
      await b.import(bytes, { as: id, runs: "live" });
      const info = await b.sessions.load(id);
      expect(info).toMatchObject({ status: "waiting", reason: "May I?", questions: asked.questions });
      expect(await b.recover([agentOf(world, 2)])).toEqual([]);
      await b.answer(id, { yes: 1n });
      const [handle] = await b.recover([agentOf(world, 2)]);
      expect(await handle?.result()).toMatchObject({ status: "completed", output: { yes: 1n } });
      expect(await b.run(agentOf(world, 2), { session: id, input: "go" })).toMatchObject({ status: "completed" });
    }
    expect(world.log).toEqual(["before-0", "before-1", "after", "after"]);
    expect(await a.sessions.load("s")).toMatchObject({ status: "waiting" });
    await a.answer("s", "late");
    expect(await a.run(agentOf(world, 2), { session: "s", input: "go" })).toMatchObject({ output: "late" });
  });

  it("that was interrupted is recovered, and recorded effects are not executed again", async () => {
    const world = new World();
    const a = await there.open();
    await interruptIn(there, a, agentOf(world, 3), "go", world, "before-2");
    const b = await target();
    await b.import(a.export({ session: "s" }), { runs: "live" });
    expect(await b.sessions.load("s")).toMatchObject({ status: "interrupted" });
    const [handle] = await b.recover([agentOf(world, 3)]);
    expect(await handle?.result()).toMatchObject({ status: "waiting" });
    await b.answer("s", "yes");
    expect(await b.run(agentOf(world, 3), { session: "s", input: "go" })).toMatchObject({ output: "yes" });
    expect(world.log).toEqual(["before-0", "before-1", "before-2", "before-2", "after"]);
    await b.compact();
    expect(await b.run(agentOf(world, 3), { session: "s", input: "go" })).toMatchObject({ output: "yes" });
  });

  it("an imported run whose step was interrupted after an effect resumes behind it", async () => {
    const world = new World();
    const a = await there.open();
    await a.run(agentOf(world), { session: "s", input: "go" });
    await a.answer("s", "yes");
    const reached = world.hangIn("after");
    await a.start(agentOf(world), { session: "s", input: "go" });
    await reached;
    await there.idle();
    const b = await target();
    // It still runs in the first store; in this one, no process runs it.
    await b.import(a.export({ session: "s" }), { runs: "live" });
    const result = await b.run(agentOf(world), { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", output: "yes" });
    expect(world.log).toEqual(["before-0", "after", "after"]);
  });

  it("that has inputs in its inbox uses each of them once", async () => {
    const chat = (world: World) =>
      defineAgent({
        name: "chat",
        initial: (input: string) => ({ said: [input] }),
        receive: (state, input: string) => ({ said: [...state.said, input] }),
        async step(run) {
          await run.effect("reply", () => world.do(`reply ${run.state.said.at(-1)}`));
          return run.complete(run.state.said.length);
        },
      });
    const world = new World();
    const a = await there.open();
    await a.run(chat(world), { session: "s", input: "one", key: "k1" });
    await a.send("s", "two", { key: "k2" });
    await a.send("s", "three", { key: "k3" });
    const b = await target();
    await b.import(a.export({ session: "s" }), { runs: "live" });
    expect(await b.send("s", "two", { key: "k2" })).toBe(false);
    // A session uses one input at a time.
    for (let time = 0; time < 2; time++) {
      for (const handle of await b.recover([chat(world)])) await handle.result();
    }
    expect(world.log).toEqual(["reply one", "reply two", "reply three"]);
    expect(await b.run(chat(world), { session: "s", input: "one", key: "k1" })).toMatchObject({ status: "completed" });
    expect(world.log).toHaveLength(3);
  });

  it("a run that is exported while it works can be resumed", async () => {
    const world = new World();
    const counter = defineAgent({
      name: "counter",
      initial: (_input: string) => ({ n: 0, filler: Array.from({ length: 400 }, (_, n) => `${n} ${"x".repeat(400)}`) }),
      async step(run) {
        await run.effect("first", () => world.do(`first-${run.state.n}`));
        await run.effect("second", () => world.do(`second-${run.state.n}`));
        await run.effect("third", () => world.do(`third-${run.state.n}`));
        run.state.n++;
        return run.state.n === 6 ? run.complete(run.state.n) : undefined;
      },
    });
    const a = await there.open();
    await interruptIn(there, a, counter, "go", world, "second-2");
    const other = await there.open();
    // While it is exported, it continues for a few steps.
    const bytes = await exportWithPause(other.export({ session: "s" }), async () => {
      const reached = world.hangIn("second-4");
      await other.start(counter, { session: "s", input: "go" });
      await reached;
      await there.idle();
    });
    const b = await target();
    await b.import(bytes, { runs: "live" });
    const log = world.log.length;
    const result = await b.run(counter, { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", output: 6 });
    // It resumes from where it was when the export began, or from later.
    const again = world.log.slice(log);
    expect(["second-2", "second-3", "second-4"]).toContain(again[0]);
  });

  it("that was enqueued and has not started is started where it is imported", async () => {
    const world = new World();
    const a = await there.open();
    await a.enqueue("worker", { session: "s", input: "go" });
    const b = await target();
    await b.import(a.export(), { runs: "live" });
    expect(await b.sessions.load("s")).toMatchObject({ status: "queued" });
    const [handle] = await b.recover([agentOf(world)]);
    expect(await handle?.result()).toMatchObject({ status: "waiting" });
    expect(world.log).toEqual(["before-0"]);
  });

  it("that was cancelled, and had not ended when it was exported, is halted where it is imported", async () => {
    const world = new World();
    const a = await there.open();
    const reached = world.hangIn("before-1");
    await a.start(agentOf(world, 3), { session: "s", input: "go" });
    await reached;
    await there.idle();
    expect(await (await there.open()).cancel("s", "enough")).toBe(true);
    const b = await target();
    await b.import(a.export({ session: "s" }), { runs: "live" });
    const handles = await b.recover([agentOf(world, 3)]);
    expect(handles).toEqual([]);
    expect(await b.sessions.load("s")).toMatchObject({ status: "halted", reason: "cancelled: enough" });
    expect(world.log).toEqual(["before-0", "before-1"]);
  });
});
