/** What ccswarm did, and what it got wrong, line by line: checkpoints of sessions, their index, and forks. */
import { existsSync } from "node:fs";
import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Damage } from "savepoint/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { defineAgent, Savepoint, type Status } from "../../src/index.js";
import { branchKey, idKey, labelKey, sessionKey, sessionNumberKey } from "../../src/records/index.js";
import { idsIn } from "../checkpoints/agent-data.js";
import { startChild } from "../crash/children.js";
import { messages } from "../model/sample-states.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, interruptIn, until, useLab, World } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { PLACES } from "./places.js";

/** Bytes that do not compress. */
function noise(length: number): Uint8Array {
  let state = 12_345;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

describe.each(STORES)("ccswarm on $name", (kind) => {
  const data = useData(kind);

  it("002-S5: a list has id, session, label, time and size of each checkpoint, and a reopened store lists the same", async () => {
    let time = 1_700_000_000_000;
    const sp = await data.open({ now: () => time++ });
    for (const id of ["a", "b"]) {
      for (let n = 0; n < 3; n++) await sp.session(id).save({ n, text: "x".repeat(1000 * n) }, { label: `${id}${n}` });
    }
    const before = await sp.checkpoints.list().all();
    const after = await (await data.open()).checkpoints.list().all();
    expect(after).toStrictEqual(before);
    expect(after).toHaveLength(6);
    const last = after.find(({ label }) => label === "b2");
    expect(last).toMatchObject({ sessionId: "b", label: "b2", stateBytes: 2000 + '{"n":2,"text":""}'.length });
    expect(last?.storedBytes).toBeGreaterThan(0);
    expect(new Set(after.map(({ createdAt }) => createdAt)).size).toBe(6);
    expect(last).not.toHaveProperty("state");
  });

  it("002-S9: deleting the checkpoints of a session returns their count, and the session itself can be deleted", async () => {
    const sp = await data.open();
    for (const id of ["a", "b"]) for (let n = 0; n < 3; n++) await sp.session(id).save(n);
    expect(await sp.session("a").clear()).toBe(3);
    expect(await sp.sessions.load("a")).toMatchObject({ id: "a", head: undefined });
    expect([await sp.sessions.delete("a"), await sp.sessions.delete("a")]).toEqual([true, false]);
    const again = await data.open();
    expect((await again.sessions.list().all()).map(({ id }) => id)).toEqual(["b"]);
    expect(await again.checkpoints.list().all()).toHaveLength(3);
    expect((await again.session("a").save("anew")).step).toBe(0);
  });

  it("002-U1: a fork records its session, checkpoint and name, is validated and listed, and becomes a session of its own", async () => {
    const session = (await data.open()).session("s");
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push((await session.save({ n })).id);
    expect(await codeOf(session.fork("unknown", { branch: "x" }))).toBe("CHECKPOINT_NOT_FOUND");
    const fork = await session.fork(ids[1] ?? "", { branch: "what if" });
    expect(await codeOf(session.fork(ids[2] ?? "", { branch: "what if" }))).toBe("BRANCH_EXISTS");
    expect([fork.id, fork.branch]).toEqual(["s", "what if"]);
    expect((await fork.latest())?.id).toBe(ids[1]);
    const saved = await fork.save({ n: "other" });
    expect(saved).toMatchObject({ branch: "what if", parentId: ids[1] });
    const unnamed = await session.fork(ids[0] ?? "");
    const again = await data.open();
    const branches = await again.session("s").branches().all();
    expect(Object.fromEntries(branches.map(({ name, head }) => [name, head?.id]))).toEqual({
      main: ids[3],
      "what if": saved.id,
      [unnamed.branch]: ids[0],
    });
    expect((await again.session("s").latest())?.state).toEqual({ n: 3 });
    expect(await idsIn(again.session("s", { branch: "what if" }).history())).toEqual([saved.id, ids[1], ids[0]]);
  });

  it("002-U2: after an agent compacts its state, the previous state is still available", async () => {
    const session = (await data.open()).session<{ messages: unknown[] }>("s");
    const long = await session.save({ messages: messages(60) }, { usage: { tokens: 200_000 } });
    const kept = [messages(1)[0], { role: "system", content: "a summary" }, ...messages(60).slice(-5)];
    const short = await session.save({ messages: kept }, { usage: { tokens: 9000 }, metadata: { compacted: 54 } });
    expect(short.stateBytes).toBeLessThan(long.stateBytes / 5);
    expect(short.storedBytes).toBeLessThan(long.storedBytes);
    const again = (await data.open()).session<{ messages: unknown[] }>("s");
    expect(await again.latest()).toMatchObject({ state: { messages: kept }, metadata: { compacted: 54 } });
    expect((await again.load(long.id))?.state.messages).toEqual(messages(60));
  });

  it("002-U4: a session is resumed by id, forked by name, labelled, restored, and saved at intervals", async () => {
    const sp = await data.open();
    await sp.session("s").save({ n: 1 });
    const resumed = (await data.open()).session<{ n: number }>("s");
    expect((await resumed.latest())?.state).toEqual({ n: 1 });
    await resumed.save({ n: 2 }, { label: "milestone" });
    await resumed.save({ n: 3 });
    const fork = await resumed.fork({ label: "milestone" }, { branch: "experiment" });
    expect((await fork.latest())?.state).toEqual({ n: 2 });
    const target = (await resumed.load({ label: "milestone" }))?.id ?? "";
    await (await data.open()).checkpoints.restore(target);
    expect((await resumed.latest())?.state).toEqual({ n: 2 });
    await sp.autoCheckpoints.set({ session: "t" }, { interval: 5 });
    await sp.autoCheckpoints.start({ session: sp.session("t"), state: () => ({ by: "itself" }) });
    await until(() => sp.session("t").head(), "an automatic checkpoint");
    await sp.autoCheckpoints.stop();
    expect(await sp.session("t").latest()).toMatchObject({ kind: "automatic", state: { by: "itself" } });
  });

  it("002-B1: checkpoints can be restored, have parents, and keep bytes as bytes", async () => {
    const sp = await data.open();
    const session = sp.session<{ context: Uint8Array }>("s");
    const before = await sp.bytes();
    const context = noise(200_000);
    const first = await session.save({ context });
    // An array of numbers, one per line, would take four times as much.
    expect((await sp.bytes()) - before).toBeLessThan(1.5 * context.length);
    const second = await session.save({ context: new Uint8Array(200_000) });
    expect(second.parentId).toBe(first.id);
    const again = await data.open();
    await again.checkpoints.restore(first.id);
    const latest = await again.session<{ context: Uint8Array }>("s").latest();
    expect(latest?.parentId).toBe(first.id);
    expect(latest?.state.context).toBeInstanceOf(Uint8Array);
    expect(Buffer.compare(latest?.state.context ?? new Uint8Array(), context)).toBe(0);
  });

  it("002-B3: concurrent saves lose no list entries", async () => {
    const writers = [await data.open(), await data.open(), await data.open()];
    const work = Array.from({ length: 30 }, (_, n) => (writers[n % 3] as Savepoint).session(`s${n}`).save({ n }));
    const saved = await Promise.all(work);
    const again = await data.open();
    expect((await idsIn(again.checkpoints.list())).sort()).toEqual(saved.map(({ id }) => id).sort());
    expect(await again.sessions.list().all()).toHaveLength(30);
    expect((await again.stats()).checkpoints).toBe(30);
  });

  it("002-B4: lists are ordered, the latest of equal times is the last saved, and deleted checkpoints stay deleted", async () => {
    const sp = await data.open({ now: () => 7 });
    const ids: string[] = [];
    for (let n = 0; n < 8; n++) ids.unshift((await sp.session("s").save(n)).id);
    expect(await idsIn(sp.checkpoints.list({ session: "s" }))).toEqual(ids);
    expect((await sp.checkpoints.latest({ session: "s" }))?.state).toBe(7);
    expect(await sp.checkpoints.delete(ids[3] ?? "")).toBe(true);
    const again = await data.open();
    expect(await idsIn(again.checkpoints.list({ session: "s" }))).toEqual(ids.filter((_, n) => n !== 3));
    expect(await again.checkpoints.load(ids[3] ?? "")).toBeUndefined();
    expect((await again.stats()).checkpoints).toBe(7);
  });

  it("002-B5: metadata and context do not affect each other, in any order, and reads do not block", async () => {
    const context = noise(5000);
    const sp = await data.open();
    const session = sp.session("../s");
    const first = await session.save({ context }, { metadata: { a: 1 } });
    const second = await session.save({ context }, { metadata: { b: 2 } });
    const third = await session.save({ context: context.slice(1) }, { metadata: { a: 1 } });
    const again = (await data.open()).session<{ context: Uint8Array }>("../s");
    const saving = session.save({ context: noise(9000) });
    const loaded = await Promise.all([first, second, third].map(({ id }) => again.load(id)));
    expect(loaded.map((each) => each?.metadata)).toEqual([{ a: 1 }, { b: 2 }, { a: 1 }]);
    expect(loaded.map((each) => each?.state.context.length)).toEqual([5000, 5000, 4999]);
    expect(Buffer.compare(loaded[1]?.state.context ?? new Uint8Array(), context)).toBe(0);
    await saving;
  });
});

describe.each(STORES.filter(({ name }) => name !== "memory:"))("ccswarm, stored on $name", (kind) => {
  const data = useData(kind);

  it("002-B1: bytes are stored compressed", async () => {
    const sp = await data.open();
    const context = new Uint8Array(1_000_000).fill(7);
    const before = await sp.bytes();
    await sp.session("s").save({ context });
    await sp.compact();
    expect((await sp.bytes()) - before).toBeLessThan(context.length / 4);
  });
});

describe("ccswarm on stores with a path", () => {
  it("002-S6: the default store is .savepoint in the working folder, and nothing is written to the home folder", async () => {
    const folder = await realpath(await makeFolder());
    onTestFinished(() => removeFolder(folder));
    await mkdir(join(folder, "home"));
    vi.spyOn(process, "cwd").mockImplementation(() => folder);
    vi.stubEnv("SAVEPOINT_URL", "");
    vi.stubEnv("HOME", join(folder, "home"));
    onTestFinished(() => {
      vi.restoreAllMocks();
      vi.unstubAllEnvs();
    });
    await using sp = await Savepoint.open();
    await sp.session("s").save(1);
    expect(sp.url).toContain(join(folder, ".savepoint"));
    expect(existsSync(join(folder, ".savepoint"))).toBe(true);
    expect(existsSync(join(folder, "home", ".savepoint"))).toBe(false);
  });
});

describe.each(PLACES)("ccswarm, with processes on $name", (place) => {
  it("002-B3: two processes that save at the same time lose nothing", async () => {
    const url = place.temporaryStore();
    const children = ["left", "right"].map((name) => startChild("saveOwn", url, name, 100));
    for (const { ended } of children) expect(await ended).toMatchObject({ code: 0, stderr: "" });
    await using sp = await Savepoint.open(url);
    for (const name of ["left", "right"]) {
      expect(await sp.checkpoints.list({ agent: name }).all()).toHaveLength(100);
      for (let n = 0; n < 5; n++) {
        const steps = (await sp.session(`${name}-${n}`).history({ order: "oldest" }).all()).map(({ step }) => step);
        expect(steps).toEqual(Array.from({ length: 20 }, (_, step) => step));
      }
    }
  });
});

describe.each(PLACES)("ccswarm, with damage, on $name", (place) => {
  const file = place.useDamageable();

  it("002-B2: no index is the only source: with every index unreadable, each checkpoint is still found", async () => {
    const session = (await file.open()).session("s");
    const first = await session.save({ n: 0 }, { id: "mine", label: "first" });
    const second = await session.save({ n: 1 });
    file.flip(sessionNumberKey(0));
    file.flip(idKey("mine", 0));
    file.flip(labelKey(0, "first", 0));
    const again = await file.open();
    expect((await again.session("s").latest())?.id).toBe(second.id);
    expect((await again.session("s").load({ seq: 0 }))?.id).toBe(first.id);
    expect((await again.session("s").load(second.id))?.state).toEqual({ n: 1 });
    await again.session("t").save("the store goes on");
    expect((await (await file.open()).session("t").latest())?.state).toBe("the store goes on");
    expect((await again.sessions.list().all()).map(({ id }) => id)).toEqual(["t"]);
    expect(file.events).toHaveLength(1);
  });

  it("002-B2: a session whose record is missing is not mistaken for one that never existed", async () => {
    await (await file.open()).session("s").save({ n: 0 });
    file.damage({ kind: "record", key: sessionKey("s") }, "remove");
    const looked = (await file.open()).session("s").latest();
    expect(await looked.catch((error: { code: string }) => error.code)).toBeDefined();
  });

  const [OWN, LISTED, BRANCH] = [sessionKey("s"), sessionNumberKey(0), branchKey("s", "main")];
  const LOST: Readonly<Record<string, readonly string[]>> = {
    "the session's record": [OWN],
    "the list of sessions": [LISTED],
    "the branch's record": [BRANCH],
    "the session's and the branch's": [OWN, BRANCH],
    "the list and the branch's": [LISTED, BRANCH],
  };
  const HOW = ["flip", "truncate", "remove"] as const;

  /** Four checkpoints in a session, newest first, one in another, and a backup of them. */
  async function fill(to: string): Promise<string[]> {
    const sp = await file.open();
    const session = sp.session<{ messages: unknown[] }>("s");
    const ids = [(await session.save({ messages: messages(20) }, { label: "first" })).id];
    for (let n = 0; n < 3; n++) ids.unshift((await session.append("/messages", [messages(40).at(-1 - n)])).id);
    await sp.session("t").save("another");
    await sp.backup({ to });
    await sp.close();
    return ids;
  }

  async function expectWhole(sp: Savepoint, ids: readonly string[]): Promise<void> {
    expect(await sp.verify({ deep: true })).toMatchObject({ ok: true, checkpoints: 5 });
    expect((await sp.sessions.list().all()).map(({ id }) => id).sort()).toEqual(["s", "t"]);
    expect(await idsIn(sp.session("s").history())).toEqual(ids);
    expect(await idsIn(sp.checkpoints.list({ session: "s" }))).toEqual(ids);
    expect((await sp.session("s").load({ label: "first" }))?.id).toBe(ids[3]);
    const latest = await sp.session<{ messages: unknown[] }>("s").latest();
    expect(latest).toMatchObject({ id: ids[0], skipped: [] });
    expect(latest?.state.messages).toHaveLength(23);
  }

  async function loseAndRepair(keys: readonly string[], how: Damage, backup: boolean): Promise<void> {
    const to = await makeFolder();
    onTestFinished(() => removeFolder(to));
    const ids = await fill(to);
    for (const key of keys) file.damage({ kind: "record", key }, how);
    const sp = await file.open();
    const { ok, problems } = await sp.verify();
    expect(ok).toBe(false);
    expect(problems.length).toBeGreaterThanOrEqual(keys.length);
    if (!keys.every((key) => key === LISTED)) expect(problems.map(({ sessionId }) => sessionId)).toContain("s");
    const report = await sp.repair(backup ? { from: to } : {});
    expect(report).toMatchObject({ ok: true, holes: [] });
    expect(report.healed.length).toBeGreaterThanOrEqual(keys.length);
    await expectWhole(sp, ids);
    const again = await file.open();
    await expectWhole(again, ids);
    expect((await again.session("s").save({ messages: ["on"] })).parentId).toBe(ids[0]);
  }

  it.each(Object.entries(LOST).flatMap(([what, keys]) => HOW.map((how) => ({ what, keys, how }))))(
    "002-B2: lost lists and records are rebuilt from the remaining data: $what ($how)",
    ({ keys, how }) => loseAndRepair(keys, how, false),
  );

  // The number of a session is stored only in its own record and in the list: with both lost, it takes a backup. Where
  // rows of a table are removed altogether, no trace of them remains.
  const noticed = HOW.filter((how) => how !== "remove" || place.name === "file:");
  it.each(
    noticed.flatMap((how) =>
      [
        [OWN, LISTED],
        [OWN, LISTED, BRANCH],
      ].map((keys) => ({ how, keys, count: keys.length })),
    ),
  )(
    "002-B2: a session that is missing even from the list is rebuilt from a backup: $count records ($how)",
    ({ keys, how }) => loseAndRepair(keys, how, true),
  );
});

describe.each(ALL_KINDS)("ccswarm, running on $name", (kind) => {
  const lab = useLab(kind);

  function worker(world: World) {
    return defineAgent({
      name: "worker",
      initial: (_input: string) => ({ done: [] as string[] }),
      async step(run) {
        for (const task of ["plan", "build", "test"]) {
          run.state.done.push(await run.tool({ id: task, name: task }, () => world.do(task, task)));
        }
        await run.effect("report", () => world.do("report"));
        const answer = await run.ask<string>("Good?");
        return answer === "yes" ? run.complete("done") : run.fail(answer);
      },
    });
  }

  it("002-U3: the status of a session is visible from outside in every situation", async () => {
    const world = new World();
    const first = await lab.open();
    const seen: (Status | undefined)[] = [];
    const look = async (): Promise<void> => void seen.push((await (await lab.open()).sessions.load("s"))?.status);
    await look();
    const reached = world.hangIn("report");
    await first.start(worker(world), { session: "s", input: "go" });
    await reached;
    await look();
    lab.crash();
    await look();
    await (await lab.open()).run(worker(world), { session: "s", input: "go" });
    await look();
    await (await lab.open()).answer("s", "not at all");
    await (await lab.open()).run(worker(world), { session: "s", input: "go" });
    await look();
    expect(seen).toEqual([undefined, "running", "interrupted", "waiting", "failed"]);
  });

  it("002-U4: work that is interrupted in the middle of a run is resumed from there", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), worker(world), "go", world, "report");
    const sp = await lab.open();
    expect((await sp.run(worker(world), { session: "s", input: "go" })).status).toBe("waiting");
    await sp.answer("s", "yes");
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "done" });
    expect(["plan", "build", "test"].map((task) => world.count(task))).toEqual([1, 1, 1]);
  });
});
