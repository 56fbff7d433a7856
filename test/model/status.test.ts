/** The status of sessions that are saved by hand, without a run. */
import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { STORES, useData } from "./stores.js";

const statusOf = async (sp: Savepoint, id = "s"): Promise<string | undefined> => (await sp.sessions.load(id))?.status;

describe.each(STORES)("the status of a session that is saved by hand on $name", (kind) => {
  const data = useData(kind);

  it("is open, and so is that of its checkpoints, in every listing", async () => {
    const sp = await data.open();
    const saved = await sp.session("s").save({ n: 1 });
    expect(saved.status).toBe("open");
    await sp.session("other").save({ n: 1 }, { status: "completed" });
    const far = await data.open();
    expect(await statusOf(far)).toBe("open");
    expect((await far.sessions.list({ status: "open" }).all()).map(({ id }) => id)).toEqual(["s"]);
    expect(await far.sessions.list({ status: "running" }).all()).toEqual([]);
    expect(await far.session("s").head()).toMatchObject({ status: "open" });
    expect(await far.session("s").latest()).toMatchObject({ status: "open" });
    expect((await far.session("s").history().all()).map(({ status }) => status)).toEqual(["open"]);
    for await (const event of far.watch("s")) {
      if (event.type !== "status") continue;
      expect(event.status).toBe("open");
      break;
    }
  });

  it("is running if the caller passes that status", async () => {
    const sp = await data.open();
    await sp.session("s").save({ n: 1 }, { status: "running" });
    const far = await data.open();
    expect(await far.session("s").head()).toMatchObject({ status: "running" });
    expect(await statusOf(far)).toBe("running");
    await far.session("s").save({ n: 2 });
    expect(await statusOf(far)).toBe("open");
  });

  it("is completed after complete(), which keeps the state, and open again after the next save", async () => {
    const sp = await data.open();
    const session = sp.session<{ n: number }>("s");
    const first = await session.save({ n: 1 });
    const completed = await session.complete({ reason: "the customer is happy", label: "done" });
    expect(completed).toMatchObject({
      status: "completed",
      reason: "the customer is happy",
      label: "done",
      parentId: first.id,
      step: 0,
      trigger: "complete",
    });
    const far = await data.open();
    expect(await far.sessions.load("s")).toMatchObject({ status: "completed", reason: "the customer is happy" });
    expect((await far.session("s").latest())?.state).toEqual({ n: 1 });
    expect((await far.session("s").history().all()).map(({ status }) => status)).toEqual(["completed", "open"]);
    await session.save({ n: 2 });
    expect(await statusOf(far)).toBe("open");
  });

  it("is completed after complete() even if an annotation has given a completed checkpoint another status", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    await session.save({ n: 1 }, { status: "completed" });
    await session.annotate({ seq: 0 }, "review", () => "pending", { status: "waiting" });
    expect(await statusOf(sp)).toBe("waiting");
    expect(await session.complete()).toMatchObject({ seq: 1, status: "completed" });
    expect(await statusOf(await data.open())).toBe("completed");
  });

  it("stays completed if complete() is called again, and nothing is written", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    await session.save({ n: 1 });
    const first = await session.complete();
    expect(await session.complete()).toEqual(first);
    expect((await (await data.open()).session("s").complete()).id).toBe(first.id);
    expect(await session.history().all()).toHaveLength(2);
  });

  it("cannot be completed without a checkpoint, or by a handle that is out of date", async () => {
    const sp = await data.open();
    await expect(sp.session("none").complete()).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    expect(await sp.sessions.load("none")).toBeUndefined();
    const [one, two] = [sp.session<{ n: number }>("s"), sp.session<{ n: number }>("s")];
    await one.save({ n: 1 });
    await two.save({ n: 2 });
    await expect(one.complete()).rejects.toMatchObject({ code: "CONFLICT" });
    await one.latest();
    expect(await one.complete()).toMatchObject({ status: "completed" });
  });

  it("belongs to the branch of the handle", async () => {
    const sp = await data.open();
    const session = sp.session<{ n: number }>("s");
    const { id } = await session.save({ n: 1 });
    const side = await session.fork(id, { branch: "side" });
    expect(await side.complete()).toMatchObject({ branch: "side", status: "completed" });
    expect(await statusOf(sp)).toBe("open");
    expect(await session.complete()).toMatchObject({ branch: "main", status: "completed" });
  });

  it("does not prevent a run, which continues from the saved state", async () => {
    const agent = defineAgent({
      name: "counter",
      initial: () => ({ n: 0 }),
      step: (run) => {
        run.state.n++;
        return run.complete(run.state.n);
      },
    });
    const sp = await data.open();
    await sp.session("s", { agent: "counter" }).save({ n: 41 });
    expect(await statusOf(sp)).toBe("open");
    expect(await sp.run(agent, { session: "s" })).toMatchObject({ status: "completed", output: 42 });
    expect(await statusOf(sp)).toBe("completed");
    const session = sp.session("s");
    const ended = await session.head();
    expect((await session.complete()).id).toBe(ended?.id);
  });
});
