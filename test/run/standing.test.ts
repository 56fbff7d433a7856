/** The status of a session after its branch was moved: the status is `interrupted` exactly where there is something to recover. */
import { describe, expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { branchKey } from "../../src/records/index.js";
import { ALL_KINDS, codeOf, createGate, intercept, interruptIn, useLab, World } from "./lab.js";

/** Three steps; then it asks, or sleeps, as `then` says. */
const agentOf = (world: World, then?: "ask" | "sleep") =>
  defineAgent({
    name: "agent",
    strategy: "everyStep",
    loop: false,
    initial: () => ({ n: 0 }),
    receive: (state) => void (state.n = 0),
    async step(run) {
      await run.effect("work", () => world.do(`work ${run.state.n}`, "done"));
      run.state.n++;
      if (run.state.n < 3) return undefined;
      if (then === "ask") await run.ask("continue?");
      if (then === "sleep") await run.sleep("1h");
      return run.complete("done");
    },
  });

describe.each(ALL_KINDS)("the status of a session on $name", (kind) => {
  const lab = useLab(kind);

  /** What each interface reports: the status, whether the list and the shutdown agree, and what recover would resume. */
  async function faces(sp: Savepoint, branch = "main"): Promise<{ status: string | undefined; recovered: number }> {
    const info = await sp.sessions.load("s");
    expect((await sp.sessions.list().all()).map(({ status }) => status)).toEqual([info?.status]);
    expect(await sp.sessions.list({ status: "interrupted" }).all()).toHaveLength(
      info?.status === "interrupted" ? 1 : 0,
    );
    let watched: string | undefined;
    for await (const event of sp.watch("s", { branch })) {
      if (event.type !== "status") continue;
      watched = event.status;
      break;
    }
    if (branch === "main") expect(watched).toBe(info?.status);
    const handles = await sp.recover([agentOf(new World())]);
    await Promise.all(handles.map((handle) => handle.result()));
    return { status: watched, recovered: handles.length };
  }

  const rewind = async (sp: Savepoint, seq: number): Promise<void> => void (await sp.session("s").rewind(`s#${seq}`));

  it("a run whose process has died is interrupted, and is recovered", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), agentOf(world), "go", world, "work 2");
    expect(await faces(await lab.open())).toEqual({ status: "interrupted", recovered: 1 });
  });

  it("after a rewind a session is halted with nothing to recover, and a run continues from the new head", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), agentOf(world), "go", world, "work 2");
    const sp = await lab.open();
    await rewind(sp, 1);
    expect(await faces(sp)).toEqual({ status: "halted", recovered: 0 });
    expect(await sp.sessions.load("s")).toMatchObject({
      reason: expect.stringContaining("moved to checkpoint") as string,
    });
    expect(await sp.run(agentOf(world), { session: "s" })).toMatchObject({ status: "completed" });
    expect(await faces(sp)).toEqual({ status: "completed", recovered: 0 });
  });

  it("after a rewind of a released run the session is halted, and there is nothing to recover", async () => {
    const [gate, reached] = [createGate(), createGate()];
    const agent = defineAgent({
      name: "agent",
      strategy: "everyStep",
      loop: false,
      initial: () => ({ n: 0 }),
      async step(run) {
        if (++run.state.n < 3) return undefined;
        await run.effect("work", () => (reached.open(), gate.promise));
        return run.complete("done");
      },
    });
    const first = await lab.open();
    await first.start(agent, { session: "s", input: "go" });
    await reached.promise;
    const closing = first.close();
    gate.open();
    await closing;
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    await rewind(sp, 1);
    expect(await faces(sp)).toEqual({ status: "halted", recovered: 0 });
  });

  it.each(["ask", "sleep"] as const)(
    "after a rewind of a waiting session (%s) nothing wakes it any more",
    async (then) => {
      const sp = await lab.open();
      const agent = agentOf(new World(), then);
      expect(await sp.run(agent, { session: "s", input: "go" })).toMatchObject({ status: "waiting" });
      await rewind(sp, 1);
      expect(await faces(sp)).toEqual({ status: "halted", recovered: 0 });
      expect(await codeOf(sp.answer("s", "yes"))).toBe("NOT_WAITING");
      lab.advance(3_600_001);
      expect(await faces(sp)).toEqual({ status: "halted", recovered: 0 });
      // The run asks or sleeps again, even after a rewind to the waiting checkpoint itself.
      expect(await sp.run(agent, { session: "s" })).toMatchObject({ status: "waiting" });
      const head = await sp.session("s").head();
      await rewind(sp, head?.seq ?? 0);
      expect(await faces(sp)).toEqual({ status: "halted", recovered: 0 });
    },
  );

  it("after a rewind a completed session is halted, or completed if the new head is the end of a turn", async () => {
    const sp = await lab.open();
    const agent = agentOf(new World());
    await sp.run(agent, { session: "s", input: "go" });
    const end = (await sp.session("s").head())?.seq ?? 0;
    await rewind(sp, 1);
    expect(await faces(sp)).toEqual({ status: "halted", recovered: 0 });
    await rewind(sp, end);
    expect(await faces(sp)).toEqual({ status: "completed", recovered: 0 });
  });

  it("inputs that were sent before a rewind are still received after it", async () => {
    const sp = await lab.open();
    const agent = agentOf(new World());
    await sp.run(agent, { session: "s", input: "go" });
    await sp.send("s", "next");
    await rewind(sp, 1);
    // The session is in the middle of a turn, which ends first.
    expect(await faces(sp)).toEqual({ status: "interrupted", recovered: 1 });
    const [handle] = await sp.recover([agent]);
    expect(await handle?.result()).toMatchObject({ status: "completed" });
    expect((await sp.session("s").head())?.step).toBeGreaterThan(4);
  });

  it("an input that was sent while a rewind was being written is still received", async () => {
    const sp = await lab.open();
    const agent = agentOf(new World(), "ask");
    expect(await sp.run(agent, { session: "s", input: "go" })).toMatchObject({ status: "waiting" });
    let isArmed = true;
    const slow = intercept(lab.store(), {
      commit: async ({ puts = [] }) => {
        if (!isArmed || !puts.some(({ key }) => key === branchKey("s", "main"))) return;
        isArmed = false;
        await sp.send("s", "next");
      },
    });
    await rewind(await Savepoint.open(slow, { now: lab.now }), 1);
    expect(isArmed).toBe(false);
    expect(await faces(sp)).toEqual({ status: "interrupted", recovered: 1 });
  });

  it("a fork of an interrupted branch is halted until it is run, and the interrupted branch is recovered", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), agentOf(world), "go", world, "work 2");
    const sp = await lab.open();
    await sp.session("s").fork("s#1", { branch: "side" });
    expect(await faces(sp, "side")).toEqual({ status: "halted", recovered: 1 });
    expect(await sp.run(agentOf(world), { session: "s", branch: "side" })).toMatchObject({ status: "completed" });
    expect(await faces(sp, "side")).toEqual({ status: "completed", recovered: 0 });
  });
});
