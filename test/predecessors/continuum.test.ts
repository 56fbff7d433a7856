/** What Continuum did, and what it got wrong, line by line: writing checkpoints, finding them again, and recovery. */
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { type CheckpointInfo, defineAgent, type LastShutdown, type RunEvent, Savepoint } from "../../src/index.js";
import { rowKey, tapeName } from "../../src/records/index.js";
import { hashBytes } from "../../src/state/tree/hash.js";
import { idsIn } from "../checkpoints/agent-data.js";
import { startChild } from "../crash/children.js";
import { Survivors } from "../crash/survivors.js";
import { messages } from "../model/sample-states.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, errorOf, interruptIn, useLab, World } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { PLACES } from "./places.js";
import { kill, startVictim } from "./victims.js";

const GO = { session: "s", input: "go" };

async function temporaryFolder(): Promise<string> {
  const folder = await makeFolder();
  onTestFinished(() => removeFolder(folder));
  return folder;
}

describe.each(STORES)("Continuum on $name", (kind) => {
  const data = useData(kind);

  it("004-S1: a checkpoint keeps all its fields: trigger, iteration, messages, calls, results, tokens, cost, hint", async () => {
    const sp = await data.open({ now: () => 1_700_000_000_000 });
    const state = {
      messages: [
        { role: "user", content: "Go" },
        { role: "assistant", content: "", toolCalls: [{ id: "c1", name: "look", arguments: { at: "x" } }] },
      ],
      toolResults: { c0: { ok: true, rows: [1, 2] } },
    };
    const { id } = await sp.session("s").save(state, {
      trigger: "tool_call",
      step: 7,
      usage: { tokens: 2 ** 40, cost: 0.1 + 0.2 },
      resumeHint: "look at x first",
    });
    const loaded = await (await data.open()).session<typeof state>("s").load(id);
    expect(loaded).toMatchObject({
      id,
      sessionId: "s",
      createdAt: 1_700_000_000_000,
      trigger: "tool_call",
      step: 7,
      usage: { tokens: 2 ** 40, cost: 0.1 + 0.2 },
      resumeHint: "look at x first",
    });
    expect(loaded?.state).toStrictEqual(state);
    expect(loaded?.pendingToolCalls).toEqual([{ id: "c1", name: "look", arguments: { at: "x" } }]);
  });

  it("004-S2: a list has id, session, time, trigger and iteration of each checkpoint, and no states", async () => {
    let time = 100;
    const sp = await data.open({ now: () => time++ });
    const saved: CheckpointInfo[] = [];
    for (const trigger of ["start", "tool", "end"]) saved.unshift(await sp.session("s").save({ trigger }, { trigger }));
    const listed = await (await data.open()).session("s").history().all();
    expect(listed).toStrictEqual(saved);
    expect(listed.map(({ trigger, step }) => [trigger, step])).toEqual([
      ["end", 2],
      ["tool", 1],
      ["start", 0],
    ]);
    for (const info of listed) expect(info).not.toHaveProperty("state");
  });

  it("004-S4: save returns the id; load without an id returns the latest, with an id that one or undefined", async () => {
    const { id } = await (await data.open()).session("s").save("first");
    await (await data.open()).session("s").save("second");
    const sp = await data.open();
    expect((await sp.session("s").latest())?.state).toBe("second");
    expect((await sp.session("s").load(id))?.state).toBe("first");
    expect(await sp.session("s").load("00000000")).toBeUndefined();
    expect(await sp.session("missing").latest()).toBeUndefined();
    expect(await sp.session("missing").load(id)).toBeUndefined();
  });

  it("004-S6: deleting the only checkpoint of a session returns true, then false, and every process sees it deleted", async () => {
    const sp = await data.open();
    const { id } = await sp.session("s").save(1);
    expect([await sp.checkpoints.delete(id), await sp.checkpoints.delete(id)]).toEqual([true, false]);
    expect(await (await data.open()).session("s").latest()).toBeUndefined();
  });

  it("004-S7: three backups are kept by default", async () => {
    const to = await temporaryFolder();
    const sp = await data.open();
    const taken: string[] = [];
    for (let n = 0; n < 5; n++) {
      await sp.session("s").save(n);
      taken.unshift((await sp.backup({ to })).path);
    }
    expect((await sp.backups.list(to)).map(({ path }) => path)).toEqual(taken.slice(0, 3));
    for (const [n, path] of taken.slice(0, 3).entries()) {
      const alone = await Savepoint.open("memory:");
      await alone.import(path);
      expect((await alone.session("s").latest())?.state).toBe(4 - n);
      await alone.close();
    }
  });

  it("004-B1: the configured number of backups is kept, and the oldest is removed first", async () => {
    const to = await temporaryFolder();
    const sp = await data.open();
    const other = await data.open();
    let going = true;
    let saved = -1;
    const saving = (async () => {
      for (let n = 0; going; n++) {
        saved = (await other.session("busy").save(n)).seq;
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const taken: { path: string; before: number }[] = [];
    for (let n = 0; n < 5; n++) {
      const before = saved;
      taken.unshift({ path: (await sp.backup({ to, keep: 4 })).path, before });
      expect(readdirSync(to)).toHaveLength(Math.min(n + 1, 4));
    }
    going = false;
    await saving;
    expect((await sp.backups.list(to)).map(({ path }) => path)).toEqual(taken.slice(0, 4).map(({ path }) => path));
    for (const { path, before } of taken.slice(0, 4)) {
      const alone = await Savepoint.open("memory:");
      await alone.import(path);
      expect((await alone.session("busy").latest())?.seq ?? -1).toBeGreaterThanOrEqual(before);
      await alone.close();
    }
  });

  it("004-U6: a session counts its steps, tokens, cost and checkpoints", async () => {
    const sp = await data.open();
    const session = sp.session("s", { agent: "a" });
    for (let n = 1; n <= 4; n++) {
      await session.save({ n }, { usage: { tokens: 100 * n, cost: n / 100 }, status: n < 4 ? "running" : "completed" });
    }
    const again = await data.open();
    expect(await again.sessions.load("s")).toMatchObject({
      status: "completed",
      head: { step: 3, usage: { tokens: 400, cost: 0.04 } },
    });
    expect((await again.stats({ agent: "a" })).checkpoints).toBe(4);
  });

  it("004-B3: an id exists once, and is never a pattern", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    for (const id of ["a_b", "b", "*", "cp_b"]) await session.save(`this is ${id}`, { id });
    expect(await codeOf(session.save("another", { id: "b" }))).toBe("CONFLICT");
    const again = await data.open();
    for (const id of ["a_b", "b", "*", "cp_b"]) {
      expect((await again.session("s").load(id))?.state).toBe(`this is ${id}`);
    }
    for (const id of ["?", "a*", "_b", "a", "cp_*"]) expect(await again.session("s").load(id)).toBeUndefined();
    expect(await again.checkpoints.delete("b")).toBe(true);
    expect(await again.checkpoints.load("b")).toBeUndefined();
    expect((await idsIn(again.checkpoints.list())).sort()).toEqual(["*", "a_b", "cp_b"]);
    const made = await Promise.all(Array.from({ length: 200 }, (_, n) => again.session(`t${n}`).save(n)));
    expect(new Set(made.map(({ id }) => id)).size).toBe(200);
  });

  it("004-B4: checkpoints are ordered by save, whatever the clock does, and a deleted one does not return as latest", async () => {
    let time = 1_700_000_000_000;
    const sp = await data.open({ now: () => (time -= 86_400_000) });
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.unshift((await sp.session("s").save(n)).id);
    const again = await data.open();
    expect(await idsIn(again.session("s").history())).toEqual(ids);
    expect((await again.session("s").latest())?.state).toBe(4);
    await again.checkpoints.delete(ids[0] ?? "");
    const last = await data.open();
    expect((await last.session("s").latest())?.state).toBe(3);
    expect((await last.checkpoints.latest({ session: "s" }))?.state).toBe(3);
  });

  it("004-B5: every reader lists the saved checkpoints, and never an empty list", async () => {
    const sp = await data.open();
    for (let n = 0; n < 3; n++) await sp.session("s").save({ n }, { trigger: "manual", metadata: { n } });
    for (let n = 0; n < 2; n++) {
      const again = await data.open();
      expect(await again.session("s").history().all()).toHaveLength(3);
      expect(await again.checkpoints.list({ session: "s" }).all()).toHaveLength(3);
      expect((await again.sessions.list().all()).map(({ id }) => id)).toEqual(["s"]);
    }
  });

  it("004-B6: every cost is restored to the last bit, and no checkpoint is reported as damaged because of one", async () => {
    let state = 1;
    const random = (): number => {
      const words = new Uint32Array(2).map(() => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0));
      return new Float64Array(words.buffer)[0] ?? 0;
    };
    const hard = [
      0.1 + 0.2,
      1 / 3,
      5e-324,
      Number.MAX_VALUE,
      Number.parseFloat("2.2250738585072011e-308"),
      2 ** 53 + 2,
      123456.789e-10,
    ];
    const costs = [...hard, ...Array.from({ length: 200 }, random)].filter((cost) => Number.isFinite(cost));
    const session = (await data.open()).session("s");
    for (const cost of costs.slice(0, 60)) await session.save({ cost }, { usage: { cost } });
    await session.save({ costs });
    const again = (await data.open()).session<{ cost: number; costs: number[] }>("s");
    const latest = await again.latest();
    expect(latest?.skipped).toEqual([]);
    expect(latest?.state.costs).toStrictEqual(costs);
    const listed = await again.history({ order: "oldest" }).all();
    expect(listed.slice(0, 60).map(({ usage }) => usage?.cost)).toStrictEqual(costs.slice(0, 60));
    for (const [n, info] of listed.slice(0, 10).entries()) {
      expect((await again.load(info.id))?.state.cost).toBe(costs[n]);
    }
  });
});

describe.each(PLACES)("Continuum, when a process is killed, on $name", (place) => {
  /** Kills a process at this point of a save, and opens the store that it left. */
  async function killAt(point: string, survivors: Survivors): Promise<void> {
    const { lines, signal, stderr } = await startChild("saveForever", survivors.url, 11, `${point}@2`).ended;
    expect({ signal, stderr }, point).toEqual({ signal: "SIGKILL", stderr: "" });
    survivors.note(lines);
  }

  it("004-U1: a kill in the middle of a write leaves nothing half-written, and no stale files", async () => {
    const survivors = new Survivors(place.temporaryStore());
    for (const point of place.points.slice(-2)) {
      await killAt(point, survivors);
      await survivors.check({ all: true });
    }
    const folder = dirname(survivors.url.slice(place.name.length));
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => /te?mp|backup|~|\.new/i.test(name))).toEqual([]);
  });

  it("004-B2: after a kill around a write, the latest is never older than the last acknowledged save", async () => {
    const survivors = new Survivors(place.temporaryStore());
    const newest = new Map<string, number>();
    for (const point of place.points.slice(1, 3)) {
      const { lines, signal } = await startChild("saveForever", survivors.url, 23, `${point}@5`).ended;
      expect(signal).toBe("SIGKILL");
      await using sp = await Savepoint.open(survivors.url);
      for (const { session, seq } of lines as { session: string; seq: number }[]) newest.set(session, seq);
      for (const [id, seq] of newest) {
        const all = await sp.session(id).history({ allBranches: true, limit: 1 }).all();
        expect(all[0]?.seq).toBeGreaterThanOrEqual(seq);
        expect((await sp.session(id).latest())?.skipped).toEqual([]);
      }
    }
    expect(newest.size).toBeGreaterThan(0);
  });
});

describe.each(PLACES)("Continuum, opening after a process was killed, on $name", (place) => {
  const CLEAN: LastShutdown = { clean: true, processes: [], interrupted: [] };

  it("004-U3: opening reports an unclean shutdown once, and nothing after a clean one", async () => {
    const url = place.temporaryStore();
    const told: LastShutdown[] = [];
    const on = { uncleanShutdown: (event: LastShutdown) => void told.push(event) };
    const since = Date.now();
    const victim = await startVictim("hold", url);
    {
      // The process is alive and has the store open: this is not a crash.
      await using beside = await Savepoint.open(url, { on });
      expect(beside.lastShutdown).toEqual(CLEAN);
    }
    await kill(victim);
    {
      await using sp = await Savepoint.open(url, { on });
      expect(sp.lastShutdown).toMatchObject({ clean: false, processes: [{ pid: victim.pid }], interrupted: [] });
      expect(sp.lastShutdown.processes[0]?.since).toBeGreaterThanOrEqual(since);
      expect(told).toEqual([sp.lastShutdown]);
      expect(await sp.session("s").latest()).toMatchObject({ id: victim.ids.at(-1), skipped: [] });
      await sp.session("s").save("closed in an orderly way");
    }
    await using again = await Savepoint.open(url, { on });
    expect(again.lastShutdown).toEqual(CLEAN);
    expect(told).toHaveLength(1);
  });

  it("004-U3: a process that closes the store shuts down cleanly, and every killed process is listed", async () => {
    const url = place.temporaryStore();
    const closing = await startVictim("close", url);
    expect(await closing.ended).toMatchObject({ code: 0 });
    {
      await using sp = await Savepoint.open(url);
      expect(sp.lastShutdown).toEqual(CLEAN);
    }
    const victims = [await startVictim("hold", url, "a"), await startVictim("hold", url, "b")];
    for (const victim of victims) await kill(victim);
    await using sp = await Savepoint.open(url);
    const pids = sp.lastShutdown.processes.map(({ pid }) => pid);
    expect(new Set(pids)).toEqual(new Set(victims.map(({ pid }) => pid)));
    expect(pids).toHaveLength(2);
  });

  it("004-B7: opening lists every session that a crash has interrupted, and all of them resume", async () => {
    const url = place.temporaryStore();
    await kill(await startVictim("runs", url));
    const told: LastShutdown[] = [];
    await using sp = await Savepoint.open(url, { on: { uncleanShutdown: (event) => void told.push(event) } });
    const named = sp.lastShutdown.interrupted.map(({ sessionId, branch }) => `${sessionId} ${branch}`).sort();
    expect(named).toEqual(["one main", "three main", "two main"]);
    expect(told).toEqual([sp.lastShutdown]);
    for (const id of ["one", "two", "three"]) expect((await sp.sessions.load(id))?.status).toBe("interrupted");
    const handles = await sp.recover([counter(new World())]);
    for (const handle of handles) expect(await handle.result()).toMatchObject({ status: "completed", output: 3 });
    expect(handles.map(({ session }) => session).sort()).toEqual(["one", "three", "two"]);
  });
});

describe.each(PLACES)("Continuum, with damage, on $name", (place) => {
  const file = place.useDamageable();

  it("004-U3: after a crash the newest intact checkpoint is loaded, and if none is intact, repair uses a backup", async () => {
    const { url } = await file.open();
    const victim = await startVictim("hold", url);
    await kill(victim);
    const { ids } = victim;
    const to = await temporaryFolder();
    const first = await file.open();
    expect(first.lastShutdown).toMatchObject({ clean: false, processes: [{ pid: victim.pid }] });
    await first.backup({ to });
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 22 }, "flip");
    const latest = await (await file.open()).session("s").latest();
    expect(latest).toMatchObject({ id: ids[2], state: { messages: { length: 22 } }, skipped: [{ id: ids[3] }] });
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 0 }, "flip");
    const sp = await file.open();
    expect(await codeOf(sp.session("s").latest())).toBe("DAMAGED");
    expect(await sp.repair({ dryRun: true })).toMatchObject({ ok: false });
    const { ok, healed, holes } = await sp.repair({ from: to });
    expect({ ok, holes }).toEqual({ ok: true, holes: [] });
    expect([...new Set(healed.flatMap(({ checkpoints }) => checkpoints))].sort()).toEqual(ids.slice().sort());
    for (const whole of [sp, await file.open()]) {
      expect(await whole.session("s").latest()).toMatchObject({
        id: ids[3],
        state: { messages: { length: 23 } },
        skipped: [],
      });
      expect(await whole.verify({ deep: true })).toMatchObject({ ok: true, checkpoints: 4 });
    }
  });

  async function grow(): Promise<string[]> {
    const session = (await file.open()).session<{ messages: unknown[] }>("s");
    const ids = [(await session.save({ messages: messages(20) })).id];
    for (let n = 0; n < 3; n++) ids.push((await session.append("/messages", [messages(40).at(-1 - n)])).id);
    return ids;
  }

  it("004-S3: one file holds everything: the newest checkpoint does not depend on a single file, link or record", async () => {
    const ids = await grow();
    file.flip(rowKey(0, 3));
    // The row of the newest checkpoint is stored twice.
    expect(await (await file.open()).session("s").latest()).toMatchObject({ id: ids[3], skipped: [] });
  });

  it("004-S5: a damaged checkpoint throws when it is loaded, and lists leave it out, newest first", async () => {
    const ids = await grow();
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 22 }, "flip");
    file.flip(rowKey(0, 1));
    const session = (await file.open()).session("s");
    expect(await codeOf(session.load(ids[3] ?? ""))).toBe("DAMAGED");
    expect(await codeOf(session.load({ seq: 1 }))).toBe("DAMAGED");
    expect(await idsIn(session.history())).toEqual([ids[3], ids[2], ids[0]]);
  });

  it("004-S6: verify reports whether everything is intact, and what is not", async () => {
    const ids = await grow();
    expect(await (await file.open()).verify({ deep: true })).toMatchObject({ ok: true, problems: [], checkpoints: 4 });
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 22 }, "flip");
    const sp = await file.open();
    const { ok, problems } = await sp.verify({ deep: true });
    expect(ok).toBe(false);
    expect(problems.find(({ checkpoints }) => checkpoints.length > 0)).toMatchObject({
      sessionId: "s",
      checkpoints: [ids[3]],
    });
    expect(await sp.verify({ checkpoint: ids[2] ?? "" })).toMatchObject({ ok: true });
    expect(await sp.verify({ checkpoint: ids[3] ?? "" })).toMatchObject({ ok: false });
    file.flip(rowKey(0, 1));
    expect((await (await file.open()).verify()).problems.map(({ kind }) => kind)).toContain("record");
    expect(await codeOf(sp.verify({ checkpoint: "missing" }))).toBe("CHECKPOINT_NOT_FOUND");
    expect(await codeOf(sp.verify({ bundle: "/nowhere/to.be.found" }))).not.toBe("none");
  });

  it("004-U2: missing, changed and newer-version data are reported as different errors", async () => {
    const sp = await file.open();
    for (const [n, id] of ["changed", "lost"].entries()) {
      // They do not compress: every bit counts.
      const bytes = randomBytes(5000);
      await sp.session(id).save({ bytes });
      file.damage({ kind: "blob", hash: hashBytes(bytes) }, n === 0 ? "flip" : "remove");
    }
    const again = await file.open();
    const [changed, missing] = await Promise.all(
      ["changed", "lost"].map((id) => errorOf(again.session(id).load({ seq: 0 }))),
    );
    expect([changed?.code, missing?.code]).toEqual(["DAMAGED", "DAMAGED"]);
    expect(changed?.message).toContain("is damaged");
    expect(missing?.message).toContain("is missing");
    const migrations = { a: { session: [(state: unknown) => state, (state: unknown) => state] } };
    await (await file.open({ migrations })).session("t", { agent: "a" }).save({});
    const older = await file.open({ migrations: { a: { session: [(state: unknown) => state] } } });
    expect(await codeOf(older.session("t", { agent: "a" }).latest())).toBe("AGENT_TOO_OLD");
  });

  it("004-U2: the order of keys is kept, and does not affect whether a checkpoint is intact", async () => {
    const sp = await file.open();
    await sp.session("a").save({ z: 1, a: { y: 2, b: 3 } });
    await sp.session("b").save({ a: { b: 3, y: 2 }, z: 1 });
    const again = await file.open();
    const [a, b] = [await again.session("a").latest(), await again.session("b").latest()];
    expect(a?.state).toEqual(b?.state);
    expect([Object.keys(a?.state as object), Object.keys(b?.state as object)]).toEqual([
      ["z", "a"],
      ["a", "z"],
    ]);
    expect(file.events).toEqual([]);
  });

  it("004-B2: a corrupt latest checkpoint is not an error if an older one is intact", async () => {
    const ids = await grow();
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 21 }, "flip");
    const latest = await (await file.open()).session("s").latest();
    expect(latest?.id).toBe(ids[1]);
    expect(latest?.skipped.map(({ id }) => id)).toEqual([ids[3], ids[2]]);
    expect(file.events.map(({ checkpointId }) => checkpointId)).toEqual([ids[3], ids[2]]);
  });
});

/** Counts to three, a tool in each step. */
function counter(world: World) {
  return defineAgent({
    name: "counter",
    initial: (_input: string) => ({ n: 0 }),
    async step(run) {
      const n = run.state.n + 1;
      await run.llm(() => world.do(`model ${n}`, { usage: { inputTokens: 6, outputTokens: 4, cost: 0.125 } }));
      await run.tool({ id: `c${n}`, name: "count" }, () => world.do(`count ${n}`), { onUnknown: "retry" });
      run.state.n = n;
      return n === 3 ? run.complete(n) : undefined;
    },
  });
}

describe.each(ALL_KINDS)("Continuum, running on $name", (kind) => {
  const lab = useLab(kind);

  async function interruptThree(): Promise<void> {
    const world = new World();
    const sp = await lab.open();
    for (const session of ["one", "two", "three"]) {
      const reached = world.hangIn("count 2");
      await sp.start(counter(world), { session, input: "go" });
      await reached;
    }
    await sp.run(counter(new World()), { session: "done", input: "go" });
    await lab.idle();
    lab.crash();
  }

  it("004-U4: interrupted runs are listed newest first, without completed ones, and resume", async () => {
    await interruptThree();
    const sp = await lab.open();
    const interrupted = await sp.sessions.list({ status: "interrupted" }).all();
    expect(interrupted.map(({ id }) => id)).toEqual(["three", "two", "one"]);
    const handles = await sp.recover([counter(new World())]);
    for (const handle of handles) expect(await handle.result()).toMatchObject({ status: "completed", output: 3 });
    expect(await sp.sessions.list({ status: "interrupted" }).all()).toEqual([]);
    expect(await sp.sessions.list({ status: "completed" }).all()).toHaveLength(4);
  });

  it("004-B7: every crashed session is reported, not only the first, and the status agrees with recover", async () => {
    await interruptThree();
    const sp = await lab.open();
    for (const id of ["one", "two", "three"]) {
      expect((await sp.sessions.load(id))?.status).toBe("interrupted");
    }
    const handles = await sp.recover([counter(new World())]);
    expect(handles.map(({ session }) => session).sort()).toEqual(["one", "three", "two"]);
    await Promise.all(handles.map((handle) => handle.result()));
  });

  it("004-U5: transient errors are attempted three times with growing pauses; other errors are not retried", async () => {
    const attempts: Record<string, number> = {};
    const failing = (name: string, error: Error) => (): never => {
      attempts[name] = (attempts[name] ?? 0) + 1;
      throw error;
    };
    const events: RunEvent[] = [];
    const sp = await lab.open({ on: { run: (event) => void events.push(event) } });
    const retry = { delay: 1, jitter: 0 };
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        const caught: string[] = [];
        const attempt = async (name: string, error: Error): Promise<void> => {
          await run.effect(name, failing(name, error), { retry }).catch((reason: Error) => caught.push(reason.message));
        };
        await attempt("rate limit", Object.assign(new Error("slow down"), { status: 429 }));
        await attempt("network", Object.assign(new Error("gone"), { code: "ECONNRESET" }));
        await attempt("logic", new Error("wrong"));
        await attempt("configuration", Object.assign(new Error("no key"), { status: 401 }));
        return run.complete(caught);
      },
    });
    expect((await sp.run(agent, GO)).output).toEqual(["slow down", "gone", "wrong", "no key"]);
    expect(attempts).toEqual({ "rate limit": 3, network: 3, logic: 1, configuration: 1 });
    const pauses = events.flatMap((event) => (event.type === "retry" ? [event.delay] : []));
    expect(pauses).toEqual([1, 2, 1, 2]);
  });

  it("004-B8: a retry executes the call and returns its value; errors are not classified by their messages", async () => {
    let calls = 0;
    const sp = await lab.open();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        const value = await run.effect(
          "flaky",
          () => {
            calls++;
            if (calls < 3) throw Object.assign(new Error("later"), { transient: true });
            return { from: `attempt ${calls}` };
          },
          { retry: { delay: 0 } },
        );
        let judged = 0;
        const words = ["the author timed out", "network of resources", "please retry"];
        for (const text of words) {
          await run
            .effect(
              text,
              () => {
                judged++;
                throw new Error(text);
              },
              { retry: { delay: 0 } },
            )
            .catch(() => {});
        }
        return run.complete({ value, judged });
      },
    });
    expect((await sp.run(agent, GO)).output).toEqual({ value: { from: "attempt 3" }, judged: 3 });
    expect(calls).toBe(3);
  });

  it("004-B8: if a person answers that a call did not happen, it is executed again and returns its result", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      step: async (run) => run.complete(await run.tool({ id: "1", name: "pay" }, () => world.do("pay", "paid"))),
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "pay");
    const sp = await lab.open();
    expect((await sp.run(agent, GO)).status).toBe("waiting");
    expect(world.count("pay")).toBe(1);
    await sp.answer("s", { happened: false });
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: "paid" });
    expect(world.count("pay")).toBe(2);
  });

  it("004-U6: a run halts at its limit of steps, counts its tokens and cost, and emits its checkpoints", async () => {
    const sp = await lab.open();
    const told: string[] = [];
    sp.on("run", (event) => void (event.type === "checkpoint" && told.push(event.checkpoint.id)));
    const endless = defineAgent({
      name: "endless",
      limits: { steps: 5 },
      loop: false,
      strategy: "everyStep",
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        await run.llm(() => ({ usage: { promptTokens: 7, completionTokens: 3, cost: 0.5 } }));
        run.state.n++;
      },
    });
    const result = await sp.run(endless, GO);
    expect(result).toMatchObject({ status: "halted", steps: 5, state: { n: 5 }, usage: { tokens: 50, cost: 2.5 } });
    const history = await idsIn(sp.session("s").history({ order: "oldest" }));
    // The first one belongs to the start of the run, and is reported by `started`.
    expect(told).toEqual(history.slice(1));
    expect((await (await lab.open()).stats()).checkpoints).toBe(history.length);
  });
});
