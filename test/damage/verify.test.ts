/** What verify reports: for an intact store, each kind of damage, parts of a store, and while other processes write. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { message, Savepoint, type VerifyProblem } from "../../src/index.js";
import {
  ALL_SESSION_NUMBERS,
  branchKey,
  conversationKey,
  rowKey,
  runKey,
  sessionKey,
  sessionNumberKey,
  tapeName,
} from "../../src/records/index.js";
import { hashBytes } from "../../src/state/tree/hash.js";
import { openStore } from "../../src/store.js";
import { fill, type Known, PLACES, someBytes, text, useGround } from "./world.js";

/** Numbers follow the order of creation in {@link fill}: the agent, three conversations, then sessions. */
const [AGENT, C1, FREE, S, T] = [0, 1, 3, 4, 5] as const;

describe.each(PLACES)("verifying $name", (place) => {
  const ground = useGround();
  let folder: string;
  let known: Known;
  beforeEach(async () => {
    folder = ground.folder();
    const sp = await open();
    known = await fill(sp);
    await sp.close();
  });

  const open = (): Promise<Savepoint> => ground.open(place.url(folder));
  const flip = (key: string): Promise<void> => place.damage(folder, { kind: "record", key }, "flip");
  const flipItem = (number: number, item: number): Promise<void> =>
    place.damage(folder, { kind: "item", tape: tapeName(number, 0), item }, "flip");
  const idsOf = (id: string): string[] => known.sessions.find((each) => each.id === id)?.ids ?? [];

  /** What is wrong, without what the store says of its own files. */
  async function problems(options: Parameters<Savepoint["verify"]>[0] = {}): Promise<VerifyProblem[]> {
    const report = await (await open()).verify(options);
    expect(report.ok).toBe(report.problems.length === 0);
    return report.problems.filter(({ kind }) => kind !== "store");
  }

  it.each([false, true])("finds no damage in an intact store (deep: %s)", async (deep) => {
    const report = await (await open()).verify({ deep });
    expect(report).toMatchObject({ ok: true, deep, problems: [], sessions: 3, checkpoints: 12, conversations: 3 });
    expect(report.records).toBeGreaterThan(50);
    expect(report.items > 20 && report.blobs === 2).toBe(deep);
  });

  describe("names the damage of", () => {
    const records: [string, string, Partial<VerifyProblem>][] = [
      ["a session", sessionKey("s"), { sessionId: "s" }],
      ["a branch", branchKey("s", "side"), { sessionId: "s" }],
      ["an agent", sessionKey("\u0001ag"), { agent: "ag" }],
      ["the branch of an agent", branchKey("\u0001ag", "main"), { agent: "ag" }],
      ["a conversation", conversationKey("c1"), { conversationId: "c1" }],
      ["a run", runKey("w", "main"), { sessionId: "w" }],
      ["the list of sessions", sessionNumberKey(S), {}],
    ];
    it.each(records)("%s", async (_, key, owner) => {
      await flip(key);
      const [found, ...more] = await problems();
      expect(found).toMatchObject({
        kind: "record",
        ...owner,
        place: expect.any(String),
        reason: expect.stringMatching(/damaged/),
      });
      expect(more.filter(({ kind }) => kind === "record")).toEqual([]);
    });

    it("the row of a checkpoint, with its owner", async () => {
      await flip(rowKey(S, 1));
      expect(await problems()).toMatchObject([
        { kind: "record", sessionId: "s", place: expect.stringContaining("#1") },
      ]);
    });

    it("an item of a session, with exactly the checkpoints that need it", async () => {
      await flipItem(T, 0);
      const found = (await problems({ deep: true })).filter(({ checkpoints }) => checkpoints.length > 0);
      expect(found).toMatchObject([{ kind: "item", sessionId: "t", reason: expect.stringMatching(/damaged/) }]);
      const sp = await open();
      for (const id of idsOf("t")) {
        const loads = await sp
          .session("t")
          .load(id)
          .then(
            () => true,
            () => false,
          );
        expect(found[0]?.checkpoints.includes(id)).toBe(!loads);
      }
    });

    it("an item of an agent, with its checkpoints", async () => {
      await flipItem(AGENT, 0);
      const found = (await problems({ deep: true })).filter(({ checkpoints }) => checkpoints.length > 0);
      expect(found).toMatchObject([{ kind: "item", agent: "ag" }]);
      expect(known.agentCheckpoints).toEqual(expect.arrayContaining([...(found[0]?.checkpoints ?? [])]));
    });

    it("a message, with its owner", async () => {
      await flipItem(C1, 1);
      expect(await problems({ deep: true })).toMatchObject([
        { kind: "item", agent: "ag", reason: expect.stringMatching(/damaged/) },
      ]);
    });

    it("a message, with its conversation", async () => {
      await flipItem(FREE, 0);
      expect(await problems({ deep: true })).toMatchObject([{ kind: "item", conversationId: "free" }]);
    });

    it("a blob", async () => {
      const hash = hashBytes(someBytes(20_000));
      await place.damage(folder, { kind: "blob", hash }, "flip");
      expect(await problems({ deep: true })).toMatchObject([
        { kind: "blob", place: `blob ${hash}`, reason: expect.stringMatching(/damaged/) },
      ]);
    });

    it("an item only once", async () => {
      await flipItem(T, 0);
      // A store of files names the line as well.
      expect((await problems({ deep: true })).filter(({ kind }) => kind !== "store")).toHaveLength(1);
    });
  });

  it("checks items and blobs only with deep: true", async () => {
    await flipItem(C1, 1);
    await place.damage(folder, { kind: "blob", hash: hashBytes(someBytes(20_000)) }, "flip");
    expect((await problems()).filter(({ kind }) => kind !== "item")).toEqual([]);
    const found = new Set((await problems({ deep: true })).map(({ kind }) => kind));
    expect([...found].sort()).toEqual(["blob", "item"]);
  });

  it("checks a sample of the checkpoints", async () => {
    const sp = await open();
    const some = await sp.verify({ sample: 0.000_001, deep: true });
    expect(some).toMatchObject({ ok: true, checkpoints: 0, sessions: 3 });
    expect((await sp.verify({ sample: 1, deep: true })).checkpoints).toBe(12);
  });

  it("checks one session, one agent or one checkpoint", async () => {
    await flipItem(T, 0);
    await flip(conversationKey("c1"));
    const sp = await open();
    const [first, , last] = idsOf("t");
    expect(await sp.verify({ session: "s", deep: true })).toMatchObject({ ok: true, sessions: 1, conversations: 0 });
    expect(await sp.verify({ session: "t", deep: true })).toMatchObject({ ok: false, sessions: 1 });
    expect(await sp.verify({ checkpoint: first ?? "" })).toMatchObject({
      ok: false,
      checkpoints: 1,
      problems: [{ kind: "item", checkpoints: [first], reason: expect.stringMatching(/damaged/) }],
    });
    expect(await sp.verify({ checkpoint: idsOf("s")[0] ?? "" })).toMatchObject({ ok: true, checkpoints: 1 });
    expect(last).toBeDefined();
    expect(await sp.verify({ session: "nobody" })).toMatchObject({ ok: true, sessions: 0 });
  });

  it("checks the conversations of one agent", async () => {
    await flip(conversationKey("c1"));
    expect(await (await open()).verify({ agent: "ag", deep: true })).toMatchObject({ ok: false });
  });

  it("checks a bundle", async () => {
    const sp = await open();
    const path = join(folder, "bundle");
    await sp.export({}).save(path);
    const whole = await sp.verify({ bundle: path });
    expect(whole).toMatchObject({ ok: true, sessions: 3, checkpoints: 12, conversations: 3, blobs: 2 });
    const bytes = readFileSync(path);
    for (const at of [0, bytes.length >> 2, bytes.length >> 1, bytes.length - 2]) {
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] as number) ^ 1;
      const report = await sp.verify({ bundle: damaged });
      expect(report.ok).toBe(false);
      expect(report.problems.every(({ kind }) => kind === "bundle")).toBe(true);
      expect((await sp.verify({ bundle: bytes.subarray(0, at) })).ok).toBe(false);
    }
    writeFileSync(path, "");
    expect((await sp.verify({ bundle: path })).ok).toBe(false);
  });

  it("reports what a bundle of a damaged store lacks", async () => {
    await flipItem(T, 0);
    const sp = await open();
    const [found] = (await sp.verify({ bundle: await sp.export({}).bytes() })).problems;
    expect(found).toMatchObject({ kind: "bundle", reason: expect.stringMatching(/could not be read/) });
  });

  it("reports progress", async () => {
    const told: number[] = [];
    const report = await (await open()).verify({ deep: true, onProgress: ({ items }) => void told.push(items) });
    expect(told.length).toBeGreaterThan(4);
    expect(told).toEqual(told.slice().sort((a, b) => a - b));
    expect(told.at(-1)).toBe(report.items);
  });

  it("rejects invalid arguments", async () => {
    const sp = await open();
    const wrong = [{ sample: 0 }, { sample: 1.1 }, { sample: Number.NaN }, { session: "" }, { agent: "a\tb" }] as const;
    const wrongToo = [
      { depth: true },
      { session: "s", agent: "ag" },
      { bundle: "x", session: "s" },
      { checkpoint: "" },
    ];
    for (const options of [...wrong, ...wrongToo]) {
      const code = expect.stringMatching(/^INVALID_(ARGUMENT|ID)$/);
      await expect(sp.verify(options as never), JSON.stringify(options)).rejects.toMatchObject({ code });
    }
    await expect(sp.verify({ checkpoint: "nobody" })).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await sp.close();
    await expect(sp.verify()).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("changes nothing, and finds no damage while other processes save, prune, clear and compact", async () => {
    const [a, b, c] = [await open(), await open(), await open()];
    let going = true;
    const forever = async (work: (n: number) => Promise<unknown>): Promise<void> => {
      for (let n = 0; going; n++) {
        await work(n);
        await nextTurn();
      }
    };
    const others = [
      forever(async (n) => {
        const session = a.session<{ messages: unknown[] }>(`busy ${n % 3}`);
        await session.save({ messages: Array.from({ length: 4 }, (_, m) => ({ content: text(n + m, 200) })) });
        if (n % 5 === 4) await session.prune({ keepLast: 2 });
        if (n % 11 === 10) await session.clear();
      }),
      forever(async (n) => {
        const { id } = await b.conversations.create({ agent: "ag", messages: [message.user(text(n))] });
        await b.conversations.append(id, [message.assistant(text(n))]);
        if (n % 4 > 0) await b.conversations.delete(id);
        if (n % 4 === 0) await b.checkpoints.create({ agent: "ag" });
        if (n % 9 === 8) await b.prune({ agent: "ag", keepLast: 2 });
      }),
      forever(() => c.compact()),
    ];
    const sp = await open();
    const found: VerifyProblem[] = [];
    try {
      for (let n = 0; n < 6; n++) found.push(...(await sp.verify({ deep: true })).problems);
    } finally {
      going = false;
      await Promise.all(others);
    }
    expect(found).toEqual([]);
    expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
  });

  it("finds no damage in a session that is deleted and created again meanwhile", async () => {
    const other = await open();
    const store = await openStore(place.url(folder));
    const list = store.list.bind(store);
    let begun = false;
    store.list = async (range, options) => {
      const found = await list(range, options);
      if (range.from === ALL_SESSION_NUMBERS.from && !begun) {
        begun = true;
        await other.sessions.delete("t");
        for (let n = 0; n < 6; n++) await other.session("t").save({ messages: [text(n)] });
      }
      return found;
    };
    const sp = await Savepoint.open(store);
    const { problems: found } = await sp.verify({ deep: true });
    await store.close();
    expect(begun).toBe(true);
    expect(found).toEqual([]);
  });
});
