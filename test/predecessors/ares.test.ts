/** What ARES did, and what it got wrong, line by line: checkpoints of an agent's steps. */
import { existsSync } from "node:fs";
import { mkdir, readFile, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Damage } from "savepoint/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { defineAgent, LoopDetector, type Message, message, pendingToolCalls, Savepoint } from "../../src/index.js";
import { branchKey, rowKey, tapeName } from "../../src/records/index.js";
import { idsIn } from "../checkpoints/agent-data.js";
import { startChild } from "../crash/children.js";
import { Survivors } from "../crash/survivors.js";
import { messages } from "../model/sample-states.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, errorOf, interruptIn, useLab, World } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { PLACES } from "./places.js";

describe.each(STORES)("ARES on $name", (kind) => {
  const data = useData(kind);

  it("000-S7: a checkpoint and the head that points at it are saved together: concurrent readers find an intact one", async () => {
    const [writer, reader] = [(await data.open()).session("s"), await data.open()];
    await writer.save({ n: 0, text: "0".repeat(500) });
    let done = false;
    const writing = (async () => {
      for (let n = 1; n <= 30; n++) await writer.save({ n, text: `${n}`.repeat(500) });
      done = true;
    })();
    let newest = 0;
    while (!done) {
      const latest = await reader.session<{ n: number; text: string }>("s").latest();
      expect(latest?.skipped).toEqual([]);
      expect(latest?.state.text).toBe(`${latest?.state.n}`.repeat(500));
      expect(latest?.state.n).toBeGreaterThanOrEqual(newest);
      newest = latest?.state.n ?? -1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writing;
    expect((await reader.session<{ n: number }>("s").latest())?.state.n).toBe(30);
  });

  it("000-S8: saving a step again creates a new checkpoint, and loading the step returns the last one saved", async () => {
    const session = (await data.open()).session("s");
    const first = await session.save("first", { step: 3 });
    await session.save("other", { step: 4 });
    const again = await session.save("again", { step: 3 });
    const reopened = (await data.open()).session("s");
    expect((await reopened.load({ step: 3 }))?.id).toBe(again.id);
    expect((await reopened.load({ step: 3 }))?.state).toBe("again");
    expect((await reopened.load(first.id))?.state).toBe("first");
    expect(await reopened.history().all()).toHaveLength(3);
  });

  it("000-S9: an empty session has no latest, and after the newest checkpoint is deleted the previous one is the latest", async () => {
    const sp = await data.open();
    expect(await sp.session("s").latest()).toBeUndefined();
    const first = await sp.session("s").save("first");
    const second = await sp.session("s").save("second");
    await sp.checkpoints.delete(second.id);
    const again = await data.open();
    expect(await again.session("s").latest()).toMatchObject({ id: first.id, state: "first" });
    await again.checkpoints.delete(first.id);
    expect(await (await data.open()).session("s").latest()).toBeUndefined();
  });

  it("000-S10: the latest is the one saved last, not the one with the highest step", async () => {
    const session = (await data.open()).session("s");
    await session.save("far", { step: 9 });
    await session.save("near", { step: 2 });
    const again = (await data.open()).session("s");
    expect(await again.latest()).toMatchObject({ step: 2, state: "near" });
    expect(await again.head()).toMatchObject({ step: 2 });
  });

  it("000-S11: checkpoints are listed ascending by step", async () => {
    const session = (await data.open()).session("s");
    for (let n = 0; n < 12; n++) await session.save(n);
    const listed = await (await data.open()).session("s").history({ order: "oldest" }).all();
    expect(listed.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });

  it("000-S12: clearing a session removes all its checkpoints, returns their count, and leaves no latest", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    for (let n = 0; n < 4; n++) await session.save(n);
    const side = await session.fork({ step: 1 }, { branch: "side" });
    await side.save("side");
    expect(await session.clear()).toBe(5);
    const again = await data.open();
    expect(await again.session("s").head()).toBeUndefined();
    expect(await again.session("s").latest()).toBeUndefined();
    expect(await again.session("s").history({ allBranches: true }).all()).toEqual([]);
    expect(await again.session("s").clear()).toBe(0);
    expect(await again.session("s").save("on")).toMatchObject({ step: 0 });
  });

  it("000-S13: clearing sess1 leaves sess2 alone", async () => {
    const sp = await data.open();
    for (const id of ["sess1", "sess2"]) for (let n = 0; n < 3; n++) await sp.session(id).save({ id, n });
    expect(await sp.session("sess1").clear()).toBe(3);
    const again = await data.open();
    expect(await again.session("sess2").history().all()).toHaveLength(3);
    expect((await again.session("sess2").latest())?.state).toEqual({ id: "sess2", n: 2 });
  });

  it("000-S14: the head tells whether there is a checkpoint, and which, without loading its state", async () => {
    const sp = await data.open();
    expect(await sp.session("s").head()).toBeUndefined();
    const saved = await sp.session("s").save({ large: "x".repeat(5000) });
    const head = await (await data.open()).session("s").head();
    expect(head).toStrictEqual(saved);
    expect(head).not.toHaveProperty("state");
  });

  it("000-U2: a checkpoint has its agent, session, step and time, and can be addressed by session and number", async () => {
    const sp = await data.open({ now: () => 1_700_000_000_123 });
    await sp.session("run-7", { agent: "agent" }).save("zero");
    const saved = await sp.session("run-7", { agent: "agent" }).save("one");
    expect(saved).toMatchObject({ agent: "agent", sessionId: "run-7", step: 1, createdAt: 1_700_000_000_123 });
    const again = await data.open();
    expect(await again.checkpoints.load("run-7#1")).toMatchObject({ id: saved.id, state: "one" });
    expect(await again.session("run-7").load("run-7#0")).toMatchObject({ step: 0, state: "zero" });
    expect(await again.checkpoints.load("run-7#2")).toBeUndefined();
  });

  it("000-U3: a missing checkpoint is an error that names it, and nothing changes", async () => {
    const session = (await data.open()).session("s");
    const saved = await session.save("one");
    const works = [
      () => session.rewind("cp-404"),
      () => session.fork("cp-404"),
      () => session.diff(saved.id, "cp-404"),
    ];
    for (const work of works) {
      const error = await errorOf(work());
      expect(error.code).toBe("CHECKPOINT_NOT_FOUND");
      expect(error.message).toContain("cp-404");
    }
    expect(await session.history({ allBranches: true }).all()).toHaveLength(1);
  });

  it("000-U4: a loaded state is deeply equal to the saved one", async () => {
    const state = {
      text: "\u0000 \ud83d\ude00 é\n",
      numbers: [0, -0, 1e-7, Number.MAX_SAFE_INTEGER, Number.NaN, -Infinity],
      nothing: [null, undefined],
      when: new Date(86_400_000),
      map: new Map<unknown, unknown>([["a", new Set([1, "1"])]]),
      big: 2n ** 70n,
      bytes: Uint8Array.from({ length: 3000 }, (_, n) => n % 256),
      deep: { z: 1, a: { $: ["date", "not one"] } },
    };
    await (await data.open()).session("s").save(state);
    const loaded = await (await data.open()).session<typeof state>("s").latest();
    expect(loaded?.state).toStrictEqual(state);
    expect(Object.keys(loaded?.state.deep ?? {})).toEqual(["z", "a"]);
    await (await data.open()).session("t").save(loaded?.state);
    expect((await (await data.open()).session("t").latest())?.state).toStrictEqual(state);
  });

  it("000-B1: listing and clearing sess1 does not reach sess1_2", async () => {
    const sp = await data.open();
    const ids = ["sess1", "sess1_2", "sess1_", "sess", "sess1_latest"];
    for (const [count, id] of ids.entries()) for (let n = 0; n <= count; n++) await sp.session(id).save({ id, n });
    for (const [count, id] of ids.entries()) expect(await sp.session(id).history().all()).toHaveLength(count + 1);
    expect(await sp.session("sess1").clear()).toBe(1);
    const again = await data.open();
    for (const [count, id] of ids.entries()) {
      if (id === "sess1") expect(await again.session(id).latest()).toBeUndefined();
      else expect((await again.session(id).latest())?.state).toEqual({ id, n: count });
    }
  });

  it("000-B2: sessions whose ids contain latest list their checkpoints", async () => {
    const sp = await data.open();
    for (const id of ["latest", "the_latest", "latest_1", "x_latest.json"]) {
      for (let n = 0; n < 3; n++) await sp.session(id).save(`${id} ${n}`);
      const again = (await data.open()).session(id);
      expect((await again.history({ order: "oldest" }).all()).map(({ step }) => step)).toEqual([0, 1, 2]);
      expect((await again.latest())?.state).toBe(`${id} 2`);
    }
  });

  it("000-B3: ids are never paths, and two agents in one session do not overwrite each other", async () => {
    const sp = await data.open();
    const ids = ["../../escaped", "/etc/passwd", "a/../b", "b"];
    for (const id of ids) await sp.session(id).save({ id });
    for (const id of ids) expect((await (await data.open()).session(id).latest())?.state).toEqual({ id });
    await sp.session("shared", { agent: "one" }).save("of one");
    expect(await codeOf(sp.session("shared", { agent: "two" }).save("of two"))).toBe("AGENT_MISMATCH");
    expect(await (await data.open()).session("shared").latest()).toMatchObject({ agent: "one", state: "of one" });
  });

  it("000-B6: ids are validated, the order is exact within a second, and old checkpoints are pruned", async () => {
    let time = 1_700_000_000_000;
    const sp = await data.open({ now: () => time });
    const session = sp.session("s");
    for (let n = 0; n < 5; n++) {
      time += 1;
      await session.save(n, { id: `mine-${n}` });
    }
    expect(await codeOf(session.save("other", { id: "mine-4" }))).toBe("CONFLICT");
    expect(await codeOf(session.save("x", { id: "a\u0000b" }))).toBe("INVALID_ID");
    const times = (await session.history({ order: "oldest" }).all()).map(({ createdAt }) => createdAt % 1000);
    expect(times).toEqual([1, 2, 3, 4, 5]);
    expect((await sp.prune({ session: "s", keepLast: 2 })).removed).toBe(3);
    const left = await (await data.open()).session("s").history().all();
    expect(left.map(({ id }) => id)).toEqual(["mine-4", "mine-3"]);
  });

  /** The newest checkpoint, by every call that returns it. */
  async function agree(id = "s"): Promise<string | undefined> {
    const session = (await data.open()).session(id);
    const [head, latest, [newest]] = [await session.head(), await session.latest(), await session.history().all()];
    expect(latest?.id).toBe(head?.id);
    expect(newest?.id).toBe(head?.id);
    return head?.id;
  }

  it("000-U1: a checkpoint expires when its ttl has passed, and pruning removes only expired ones", async () => {
    let time = 100_000;
    const sp = await data.open({ now: () => time });
    const session = sp.session("s");
    const stale = await session.save("stale", { ttl: "60s" });
    const labelled = await session.save("labelled", { ttl: "60s", label: "wanted" });
    const longer = await session.save("longer", { ttl: "62s" });
    const forever = await session.save("for ever");
    await sp.session("other").save("stale elsewhere", { ttl: "60s" });
    const other = await sp.session("other").save("other");
    expect([stale, longer, forever].map(({ expiresAt }) => expiresAt)).toEqual([160_000, 162_000, undefined]);
    const again = await data.open({ now: () => time });
    expect((await again.session("s").load(stale.id))?.expiresAt).toBe(160_000);
    const prune = async (): Promise<string[]> => {
      const { removed, gone } = await again.prune({ session: "s", expired: true });
      expect(removed).toBe(gone.length);
      return gone.map(({ id }) => id).sort();
    };
    time = 160_000;
    expect(await prune()).toEqual([]);
    time = 161_000;
    expect(await prune()).toEqual([stale.id, labelled.id].sort());
    expect(await prune()).toEqual([]);
    expect(await again.checkpoints.load(stale.id)).toBeUndefined();
    expect(await idsIn((await data.open()).session("s").history())).toEqual([forever.id, longer.id]);
    expect(await again.session("other").history().all()).toHaveLength(2);
    expect([await agree(), await agree("other")]).toEqual([forever.id, other.id]);
  });

  it("000-B8: head, latest and history agree even if everything has expired: the head stays", async () => {
    let time = 100_000;
    const sp = await data.open({ now: () => time });
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push((await sp.session("s").save(n, { ttl: "60s" })).id);
    time = 161_000;
    expect(await sp.prune({ session: "s", expired: true })).toMatchObject({
      removed: 2,
      kept: [{ reasons: ["head"] }],
    });
    expect(await agree()).toBe(ids[2]);
    // It expires like any other once it is no longer the head.
    const next = await sp.session("s").save("next");
    expect(await idsIn((await data.open()).session("s").history())).toEqual([next.id]);
    expect(await agree()).toBe(next.id);
  });

  it("000-B8: head, latest and history agree after pruning, deleting and clearing", async () => {
    const sp = await data.open();
    expect(await agree()).toBeUndefined();
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push((await sp.session("s").save(n)).id);
    expect(await agree()).toBe(ids[5]);
    await sp.prune({ session: "s", keepLast: 0 });
    expect(await agree()).toBe(ids[5]);
    await sp.session("s").save("one more");
    await sp.checkpoints.delete((await sp.session("s").head())?.id ?? "");
    expect(await agree()).toBe(ids[5]);
    await sp.session("s").clear();
    expect(await agree()).toBeUndefined();
  });
});

describe("ARES on stores with a path", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await realpath(await makeFolder());
    vi.spyOn(process, "cwd").mockImplementation(() => folder);
    vi.stubEnv("SAVEPOINT_URL", "");
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
    await removeFolder(folder);
  });

  it.each(["sqlite:", "file:"])(
    "000-S5: a store at %s is created with all its folders, and rejected if one of them is a file",
    async (scheme) => {
      const path = join(folder, "a", "b", "c", "store");
      {
        await using sp = await Savepoint.open(scheme + path);
        await sp.session("s").save(1);
      }
      expect(existsSync(path)).toBe(true);
      const file = join(folder, "file");
      await writeFile(file, "not a folder, and no store");
      for (const inTheWay of [file, join(file, "store")]) {
        const error = await errorOf(Savepoint.open(scheme + inTheWay));
        expect(["IO_FAILED", "NOT_A_STORE"]).toContain(error.code);
        expect(error.message).toContain(file);
      }
      expect(await readFile(file, "utf8")).toBe("not a folder, and no store");
      await using sp = await Savepoint.open(scheme + path);
      expect((await sp.session("s").latest())?.state).toBe(1);
    },
  );

  it("000-S6: the default store is .savepoint in the working folder, or the nearest one above it", async () => {
    {
      await using sp = await Savepoint.open();
      await sp.session("s").save("here");
    }
    expect(existsSync(join(folder, ".savepoint"))).toBe(true);
    const below = join(folder, "deep", "down");
    await mkdir(below, { recursive: true });
    vi.spyOn(process, "cwd").mockImplementation(() => below);
    await using sp = await Savepoint.open();
    expect((await sp.session("s").latest())?.state).toBe("here");
    expect(existsSync(join(below, ".savepoint"))).toBe(false);
  });
});

describe.each(PLACES)("ARES, when the process is killed, on $name", (place) => {
  it("000-B4: after a kill at any point of a write, a checkpoint is there intact or not at all", async () => {
    const survivors = new Survivors(place.temporaryStore());
    // By the eighth pass something has been saved and acknowledged, however many saves were batched.
    for (const point of place.points.slice(0, 2)) {
      const { lines, signal, stderr } = await startChild("saveForever", survivors.url, 7, `${point}@8`).ended;
      expect({ signal, stderr }, point).toEqual({ signal: "SIGKILL", stderr: "" });
      survivors.note(lines);
      await survivors.check({ all: true });
    }
    expect(survivors.count).toBeGreaterThan(0);
  });
});

describe.each(PLACES)("ARES, with damage, on $name", (place) => {
  const file = place.useDamageable();

  /** Three checkpoints: 20 messages, which are items 0 to 19 of tape 0, and one more each time. */
  async function grow(): Promise<string[]> {
    const session = (await file.open()).session<{ messages: unknown[] }>("s");
    const ids = [(await session.save({ messages: messages(20) })).id];
    for (let n = 1; n < 3; n++) ids.push((await session.append("/messages", [messages(30).at(-n)])).id);
    return ids;
  }

  it("000-S9: loading an unreadable checkpoint throws instead of returning undefined", async () => {
    await grow();
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 0 }, "flip");
    expect(await codeOf((await file.open()).session("s").latest())).toBe("DAMAGED");
    expect(await (await file.open()).session("never").latest()).toBeUndefined();
  });

  it("000-S11: a list leaves out unreadable checkpoints and reports them", async () => {
    const [first, , third] = await grow();
    file.flip(rowKey(0, 1));
    const listed = await (await file.open()).session("s").history({ order: "oldest" }).all();
    expect(listed.map(({ id }) => id)).toEqual([first, third]);
    expect(file.events.map(({ seq }) => seq)).toEqual([1]);
  });

  it("000-U3: a damaged or empty checkpoint is reported as damaged, by name", async () => {
    const [, , third] = await grow();
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 0 }, "truncate");
    const error = await errorOf((await file.open()).session("s").load(third ?? ""));
    expect(error.code).toBe("DAMAGED");
    expect(error.message).toContain("s");
    expect(file.events.map(({ checkpointId }) => checkpointId)).toEqual([third]);
  });

  async function losePointer(how: Damage): Promise<void> {
    const ids = await grow();
    file.damage({ kind: "record", key: branchKey("s", "main") }, how);
    const session = (await file.open()).session<{ messages: unknown[] }>("s");
    for (const id of ids) expect((await session.load(id))?.id).toBe(id);
    expect(await session.latest()).toMatchObject({ id: ids[2], state: { messages: { length: 22 } } });
  }

  it.each(["flip", "truncate", "remove"] as const)(
    "000-B5: the newest checkpoint is found even if the record that points at it is unreadable or missing (%s)",
    (how) => losePointer(how),
  );

  it("000-B5: a corrupt newest checkpoint falls back to the previous one, and the damage is reported", async () => {
    const [, second, third] = await grow();
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 21 }, "flip");
    const latest = await (await file.open()).session("s").latest();
    expect(latest).toMatchObject({ id: second, skipped: [{ id: third }] });
    expect(file.events).toMatchObject([{ checkpointId: third }]);
  });

  it("000-B6: listing, pruning and clearing read no states, so damaged messages do not affect them", async () => {
    const [, , third] = await grow();
    for (let item = 0; item < 22; item++) file.damage({ kind: "item", tape: tapeName(0, 0), item }, "flip");
    const sp = await file.open();
    expect(await sp.session("s").history().all()).toHaveLength(3);
    expect((await sp.session("s").head())?.id).toBe(third);
    expect(file.events).toEqual([]);
    expect((await sp.prune({ session: "s", keepLast: 2 })).removed).toBe(1);
    expect(await sp.session("s").clear()).toBe(2);
  });
});

/** Asks a model, calls a tool, and then executes one more effect. */
function worker(world: World) {
  return defineAgent({
    name: "worker",
    initial: (task: string) => ({ messages: [message.user(task)] as Message[] }),
    async step(run) {
      const { messages: said } = run.state;
      const done = said.some(({ role }) => role === "tool");
      const calls = done ? [] : [{ id: "call-1", name: "search", arguments: { q: "x" } }];
      const reply = await run.llm(() =>
        world.do(`model ${said.length}`, message.assistant(`at ${said.length}`, calls)),
      );
      said.push(reply);
      for (const call of calls)
        said.push(message.toolResult(call.id, await run.tool(call, () => world.do("tool", 42))));
      await run.effect("note", () => world.do("note"));
      return done ? run.complete("done") : undefined;
    },
  });
}

describe.each(ALL_KINDS)("ARES, running on $name", (kind) => {
  const lab = useLab(kind);

  it("000-B7: the effects of an interrupted step are not lost, and its tool calls are linked to their messages", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), worker(world), "go", world, "note");
    const result = await (await lab.open()).run(worker(world), { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", output: "done" });
    expect([world.count("model 1"), world.count("tool")]).toEqual([1, 1]);
    const [, reply, answer] = result.state.messages;
    expect(reply?.toolCalls).toEqual([{ id: "call-1", name: "search", arguments: { q: "x" } }]);
    expect(answer).toEqual({ role: "tool", toolCallId: "call-1", content: "42" });
    expect(pendingToolCalls(result.state)).toEqual([]);
    expect(pendingToolCalls({ messages: result.state.messages.slice(0, 2) })).toHaveLength(1);
  });

  it("000-U5: a model that repeats itself is reported, then halted, and the reason is kept", async () => {
    const parrot = defineAgent({
      name: "parrot",
      initial: (_input: string) => ({ verdicts: [] as string[] }),
      async step(run) {
        await run.llm(() => "I will look at the very same file again.");
        run.state.verdicts.push(run.loop);
      },
    });
    const sp = await lab.open();
    const verdicts: string[] = [];
    sp.on("run", (event) => void (event.type === "loop" && verdicts.push(event.verdict)));
    const result = await sp.run(parrot, { session: "s", input: "go" });
    expect(result.status).toBe("halted");
    expect(result.state.verdicts).toEqual(["none", "none", "warn", "alternative", "alternative", "halt"]);
    expect(verdicts).toEqual(["warn", "alternative", "alternative", "halt"]);
    expect(result.reason).not.toBe("");
    expect(await (await lab.open()).sessions.load("s")).toMatchObject({ status: "halted", reason: result.reason });
  });
});

describe("ARES, the loop detector", () => {
  const LONG = "I will look at the same file again.";

  it("000-U5: of the last ten replies the third repeat warns, the fourth asks for an alternative, the sixth halts", () => {
    const detector = new LoopDetector();
    const verdicts = Array.from({ length: 6 }, () => detector.check(LONG));
    expect(verdicts).toEqual(["none", "none", "warn", "alternative", "alternative", "halt"]);
    expect(detector.stats()).toMatchObject({ checked: 6, distinct: 1, warn: 1, alternative: 2, halt: 1 });
    detector.reset();
    expect(detector.check(LONG)).toBe("none");
    for (let n = 0; n < 9; n++) detector.check(`something entirely different, number ${n}`);
    expect(detector.check(LONG)).toBe("none");
  });

  it("000-U5: replies are compared by their first 500 characters, ignoring whitespace and case, from 20 characters up", () => {
    const detector = new LoopDetector();
    expect(["x".repeat(19), "x".repeat(19), "x".repeat(19)].map((text) => detector.check(text)).at(-1)).toBe("none");
    const start = "Abc ".repeat(125);
    expect(start).toHaveLength(500);
    const alike = [`${start}1`, `${start.toUpperCase()}2`, `${start}3`];
    expect(alike.map((text) => detector.check(text))).toEqual(["none", "none", "warn"]);
    expect(
      ["same words and more of it", "same\n words and\tmore of it", "SAMEwordsANDmoreOFit"]
        .map((text) => detector.check(text))
        .at(-1),
    ).toBe("warn");
  });
});
