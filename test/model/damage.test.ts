import { describe, expect, it } from "vitest";
import type { Session } from "../../src/index.js";
import {
  branchKey,
  idKey,
  labelKey,
  NEXT_NUMBER_KEY,
  rowKey,
  sessionKey,
  sessionNumberKey,
  tapeName,
} from "../../src/records/index.js";
import { message, messages } from "./sample-states.js";
import { useDamageableFile } from "./damageable-file.js";

interface State {
  messages: unknown[];
  note?: string;
  bytes?: Uint8Array;
}

describe("damage", () => {
  const file = useDamageableFile();
  const { open, flip } = file;

  async function reopen(): Promise<Session<State>> {
    return (await open()).session<State>("s");
  }

  /** Sessions are numbered from 0, and so are the tapes of each: `main` is tape 0. */
  const flipItem = (item: number, tape = 0, session = 0): void =>
    file.damage({ kind: "item", tape: tapeName(session, tape), item }, "flip");
  const remove = (key: string): void => file.damage({ kind: "record", key }, "remove");

  /** Saves a first state of 20 messages, which are items 0 to 19, and then one message more each time, one item each. */
  async function grow(session: Session<State>, count: number): Promise<string[]> {
    const ids = [(await session.save({ messages: messages(20) })).id];
    for (let n = 1; n < count; n++) ids.push((await session.append("/messages", [message(100 + n)])).id);
    return ids;
  }

  it("of a checkpoint prevents a rewind to it, and does not affect the newest", async () => {
    const session = await reopen();
    const damaged = await session.save({ messages: messages(20) });
    const whole = await session.save({ messages: [] });
    flipItem(3);
    const again = await reopen();
    await expect(again.rewind(damaged.id)).rejects.toMatchObject({ code: "DAMAGED" });
    expect((await again.latest())?.id).toBe(whole.id);
  });

  describe("of the newest checkpoint", () => {
    it("makes latest() return the next intact one, and report what it skipped", async () => {
      const [, , c, d] = await grow(await reopen(), 4);
      flipItem(22);
      const session = await reopen();
      const latest = await session.latest();
      expect(latest).toMatchObject({ id: c, seq: 2, holes: [] });
      expect(latest?.state.messages).toEqual([...messages(20), message(101), message(102)]);
      expect(latest?.skipped).toMatchObject([{ id: d, seq: 3 }]);
      expect(file.events).toMatchObject([{ sessionId: "s", checkpointId: d, seq: 3 }]);
      expect((await session.head())?.id).toBe(d); // the head is unchanged
      expect((await session.history().all()).length).toBe(4);
      await expect(session.load(d ?? "")).rejects.toMatchObject({ code: "DAMAGED" });
      expect((await session.load(c ?? ""))?.skipped).toEqual([]);
    });

    it("and of some before it makes latest() step back further", async () => {
      const [, b, c, d, e] = await grow(await reopen(), 5);
      flipItem(21);
      const latest = await (await reopen()).latest();
      expect(latest?.id).toBe(b);
      expect(latest?.skipped.map(({ id }) => id)).toEqual([e, d, c]);
      expect(file.events.length).toBe(3);
    });

    it("does not affect a handle that has it in memory", async () => {
      const session = await reopen();
      await grow(session, 3);
      flipItem(21);
      expect((await session.latest())?.state.messages).toHaveLength(22);
      expect((await session.append("/messages", [1])).seq).toBe(3);
    });

    it("lets the branch continue with a complete state, and with nothing else", async () => {
      const [, b, c] = await grow(await reopen(), 3);
      flipItem(21);
      const session = await reopen();
      const state = (await session.latest())?.state as State;
      await expect(session.append("/messages", [1])).rejects.toMatchObject({ code: "DAMAGED" });
      await expect(session.update((before) => before as State)).rejects.toMatchObject({ code: "DAMAGED" });
      state.messages.push("after");
      const saved = await session.save(state);
      expect(saved).toMatchObject({ seq: 3, parentId: c });
      const again = await reopen();
      expect(await again.latest()).toMatchObject({ id: saved.id, state, skipped: [] });
      expect((await again.append("/messages", ["more"])).seq).toBe(4);
      expect((await again.load(b ?? ""))?.state.messages).toHaveLength(21);
    });

    it("can be left behind by a rewind or a fork", async () => {
      const [, b] = await grow(await reopen(), 3);
      flipItem(21);
      const session = await reopen();
      const fork = await session.fork(b ?? "", { branch: "rescued" });
      await fork.append("/messages", [1]);
      expect((await fork.latest())?.state.messages).toHaveLength(22);
      await session.rewind(b ?? "");
      expect(await session.latest()).toMatchObject({ skipped: [], kind: "recovery" });
      expect((await session.append("/messages", [2])).seq).toBe(6);
    });

    it("never makes latest() return a sibling, after a rewind or beside a fork", async () => {
      const session = await reopen();
      const a = await session.save({ messages: messages(20) });
      await session.append("/messages", [message(1)]);
      await session.append("/messages", [message(2)]);
      const recovered = await session.rewind(a.id);
      const side = await session.fork(recovered.id, { branch: "side" });
      await side.append("/messages", [message(3)]);
      const last = await session.append("/messages", [message(4)]);
      flipItem(22);
      const latest = await (await reopen()).latest();
      expect(latest?.id).toBe(recovered.id);
      expect(latest?.skipped.map(({ id }) => id)).toEqual([last.id]);
      flipItem(0);
      await expect((await reopen()).latest()).rejects.toMatchObject({ code: "DAMAGED" });
    });

    it("of a fork makes latest() return the checkpoint that it was forked from", async () => {
      const session = await reopen();
      const [a] = await grow(session, 3);
      const side = await session.fork(a ?? "", { branch: "side" });
      await side.append("/messages", [message(1)]);
      flipItem(0, 1);
      const latest = await (await open()).session<State>("s", { branch: "side" }).latest();
      expect(latest?.id).toBe(a);
      expect((await (await reopen()).latest())?.state.messages).toHaveLength(22);
    });
  });

  describe("of rows", () => {
    it("is skipped along the parents", async () => {
      const [a, b, , d] = await grow(await reopen(), 4);
      flip(rowKey(0, 2));
      flipItem(22);
      const session = await reopen();
      const latest = await session.latest();
      expect(latest?.id).toBe(b);
      expect(latest?.skipped.map(({ seq }) => seq)).toEqual([3, 2]);
      file.events.length = 0;
      expect((await session.history().all()).map(({ id }) => id)).toEqual([d, b, a]);
      expect(file.events.map(({ seq }) => seq)).toEqual([2]);
      expect((await session.history({ allBranches: true, order: "oldest" }).all()).map(({ id }) => id)).toEqual([
        a,
        b,
        d,
      ]);
      await expect(session.load({ seq: 2 })).rejects.toMatchObject({ code: "DAMAGED" });
      await expect(session.fork({ seq: 2 })).rejects.toMatchObject({ code: "DAMAGED" });
    });

    it("that are missing is skipped too", async () => {
      const [a, , c] = await grow(await reopen(), 3);
      remove(rowKey(0, 1));
      expect((await (await reopen()).history().all()).map(({ id }) => id)).toEqual([c, a]);
      expect(file.events.map(({ seq }) => seq)).toEqual([1]);
    });

    it("does not affect the head, which the record of the branch contains", async () => {
      const [, , c] = await grow(await reopen(), 3);
      flip(rowKey(0, 2));
      const session = await reopen();
      expect(await session.latest()).toMatchObject({ id: c, skipped: [] });
      expect((await session.append("/messages", [1])).parentId).toBe(c);
    });

    it("that are missing, with their items, makes latest() step back from the head as well", async () => {
      const [, b, c] = await grow(await reopen(), 3);
      remove(rowKey(0, 2));
      flipItem(21);
      const session = await reopen();
      expect(await session.latest()).toMatchObject({ id: b, skipped: [{ id: c }] });
      await expect(session.append("/messages", [1])).rejects.toMatchObject({ code: "DAMAGED" });
      expect((await session.save({ messages: [] })).seq).toBe(3);
    });
  });

  describe("of the branch's record", () => {
    it("leaves the newest state and each single checkpoint readable, and a fork possible", async () => {
      const session = await reopen();
      const [a, b, c] = await grow(session, 3);
      await session.label(b ?? "", "b");
      flip(branchKey("s", "main"));
      const again = await reopen();
      const latest = await again.latest();
      expect(latest).toMatchObject({ id: c, parentId: b, state: { messages: { length: 22 } } });
      expect(file.events.length).toBeGreaterThan(0);
      expect((await again.load(a ?? ""))?.state.messages).toHaveLength(20);
      expect((await again.load({ seq: 1 }))?.id).toBe(b);
      expect((await again.load({ label: "b" }))?.id).toBe(b);
      expect((await again.load("s#2"))?.id).toBe(c);
      await expect(again.load("no")).rejects.toMatchObject({ code: "DAMAGED" });
      await expect(again.load({ step: 0 })).rejects.toMatchObject({ code: "DAMAGED" });
      for (const attempt of [
        again.save({ messages: [] }),
        again.append("/messages", [1]),
        again.head(),
        again.clear(),
      ]) {
        await expect(attempt).rejects.toMatchObject({ code: "DAMAGED" });
      }
      const fork = await again.fork(c ?? "", { branch: "rescued" });
      expect((await fork.append("/messages", [1])).seq).toBe(3);
      expect((await (await open()).session<State>("s", { branch: "rescued" }).latest())?.state.messages).toHaveLength(
        23,
      );
    });

    it("lets latest() step back from a damaged newest state", async () => {
      const [, b, c] = await grow(await reopen(), 3);
      flip(branchKey("s", "main"));
      flipItem(21);
      expect(await (await reopen()).latest()).toMatchObject({ id: b, skipped: [{ id: c }] });
    });

    it("makes latest() fail if the newest row is damaged as well", async () => {
      const session = await reopen();
      const [a] = await grow(session, 3);
      await session.rewind(a ?? ""); // rows 3 and 4; without row 4, row 3 would look like the head
      flip(branchKey("s", "main"));
      flip(rowKey(0, 4));
      await expect((await reopen()).latest()).rejects.toMatchObject({ code: "DAMAGED" });
    });

    it("of another branch does not affect this one", async () => {
      const session = await reopen();
      const [a] = await grow(session, 3);
      await session.fork(a ?? "", { branch: "side" });
      flip(branchKey("s", "side"));
      await expect((await open()).session("s", { branch: "side" }).latest()).rejects.toMatchObject({ code: "DAMAGED" });
      const again = await reopen();
      expect((await again.latest())?.state.messages).toHaveLength(22);
      expect((await again.append("/messages", [1])).seq).toBe(3);
    });
  });

  describe("of the session's record", () => {
    it("leaves the newest state and each single checkpoint readable", async () => {
      const [a, , c] = await grow(await reopen(), 3);
      flip(sessionKey("s"));
      const session = await reopen();
      expect(await session.latest()).toMatchObject({ id: c, state: { messages: { length: 22 } } });
      expect((await session.load(a ?? ""))?.state.messages).toHaveLength(20);
      for (const attempt of [
        session.save({ messages: [] }),
        session.head(),
        session.fork(a ?? ""),
        session.rewind(a ?? ""),
      ]) {
        await expect(attempt).rejects.toMatchObject({ code: "DAMAGED" });
      }
    });

    it("does not hide the other sessions from a listing", async () => {
      const sp = await open();
      for (const id of ["a", "b", "c", "d"]) await sp.session(id).save(id);
      flip(sessionKey("a"));
      flip(branchKey("b", "main"));
      flip(sessionNumberKey(2));
      const again = await open();
      expect((await again.sessions.list().all()).map(({ id }) => id)).toEqual(["d"]);
      expect(file.events.length).toBe(3);
      await expect(again.sessions.load("a")).rejects.toMatchObject({ code: "DAMAGED" });
      expect((await again.sessions.load("c"))?.id).toBe("c");
    });
  });

  it("of everything is DAMAGED, which differs from nothing saved", async () => {
    await grow(await reopen(), 3);
    flipItem(0);
    await expect((await reopen()).latest()).rejects.toMatchObject({
      code: "DAMAGED",
      details: { skipped: [{ seq: 2 }, { seq: 1 }, { seq: 0 }] },
    });
    for (const key of [sessionKey("s"), branchKey("s", "main"), sessionNumberKey(0)]) flip(key);
    await expect((await reopen()).latest()).rejects.toMatchObject({ code: "DAMAGED" });
    await expect((await reopen()).save({ messages: [] })).rejects.toMatchObject({ code: "DAMAGED" });
    expect(await (await open()).session("never").latest()).toBeUndefined();
  });

  describe("of a part of a state", () => {
    it("leaves the rest readable, with the holes named", async () => {
      const session = await reopen();
      await session.save({
        messages: messages(20),
        note: "x".repeat(9000),
        bytes: Uint8Array.from({ length: 5000 }, (_, n) => (n * n) % 251),
      });
      const { id } = await session.append("/messages", [message(1)]);
      // The note's segments come after the messages; which item is which is up to the codec.
      const whole = (await session.load(id))?.state as State;
      const [{ first: item }] = file.database
        .prepare("SELECT max(first) AS first FROM savepoint_chunk WHERE tape = ?")
        .all(tapeName(0, 0)) as [{ first: number }];
      flipItem(item);
      const again = await reopen();
      await expect(again.load(id)).rejects.toMatchObject({ code: "DAMAGED", details: { path: "/messages/20" } });
      const partial = await again.load(id, { partial: true });
      expect(partial?.holes).toMatchObject([{ path: "/messages/20" }]);
      expect(partial?.state).toEqual({ ...whole, messages: [...whole.messages.slice(0, 20), null] });
      const [{ hash }] = file.database.prepare("SELECT hash FROM savepoint_blob").all() as [{ hash: string }];
      file.damage({ kind: "blob", hash }, "flip");
      const worse = await (await reopen()).load(id, { partial: true });
      expect(worse?.holes.map(({ path }) => path).sort()).toEqual(["/bytes", "/messages/20"]);
      expect(worse?.state.note).toBe(whole.note);
    });

    it("of an entry names the object, and of a segment the string", async () => {
      const session = await reopen();
      const files = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`f${n}`, `${n} `.repeat(50)]));
      const a = await session.save({ messages: [], files } as State);
      const b = await session.save({ messages: [], files: { ...files, f40: "new" } } as State);
      flipItem(40);
      const partial = await (await reopen()).load(b.id, { partial: true });
      expect(partial?.holes.map(({ path }) => path)).toEqual(["/files"]);
      expect(partial?.state).toEqual({ messages: [], files });
      expect(await (await reopen()).latest()).toMatchObject({ id: a.id });
    });

    it("that is intact gives no holes", async () => {
      const [a] = await grow(await reopen(), 2);
      expect(await (await reopen()).load(a ?? "", { partial: true })).toMatchObject({
        holes: [],
        state: { messages: { length: 20 } },
      });
    });

    it("is noticed by a comparison only if it has to be read", async () => {
      const [a, b, c] = await grow(await reopen(), 3);
      flipItem(21);
      const session = await reopen();
      expect((await session.diff(a ?? "", b ?? "")).length).toBe(1);
      await expect(session.diff(b ?? "", c ?? "")).rejects.toMatchObject({ code: "DAMAGED" });
    });
  });

  describe("of an index", () => {
    it("by id or label is worked around", async () => {
      const session = await reopen();
      const a = await session.save({ messages: messages(3) }, { id: "mine", label: "l" });
      await session.save({ messages: [] });
      flip(idKey("mine", 0));
      flip(labelKey(0, "l", 0));
      const again = await reopen();
      expect((await again.load("mine"))?.id).toBe(a.id);
      expect((await again.load({ label: "l" }))?.id).toBe(a.id);
      expect(file.events.length).toBeGreaterThan(0);
      expect(await again.load("other")).toBeUndefined();
      await expect(again.save({ messages: [] }, { id: "mine" })).rejects.toMatchObject({ code: "CONFLICT" });
    });

    it("in the counter of sessions prevents only new ones", async () => {
      await grow(await reopen(), 2);
      flip(NEXT_NUMBER_KEY);
      const sp = await open();
      await expect(sp.session("t").save(1)).rejects.toMatchObject({ code: "DAMAGED" });
      expect((await sp.session<State>("s").append("/messages", [1])).seq).toBe(2);
    });
  });

  describe("of a session that is deleted or cleared", () => {
    const damages: [string, () => void][] = [
      ["the session's record", () => flip(sessionKey("s"))],
      ["the branch's record", () => flip(branchKey("s", "main"))],
      ["the number's record", () => flip(sessionNumberKey(0))],
      ["a row", () => flip(rowKey(0, 1))],
      ["an item", () => flipItem(0)],
      ["an id", () => flip(idKey("mine", 0))],
      ["all its records", () => [sessionKey("s"), branchKey("s", "main"), rowKey(0, 0), rowKey(0, 2)].forEach(flip)],
    ];

    it.each(damages)("in %s does not prevent its deletion", async (_, damage) => {
      const session = await reopen();
      await session.save({ messages: messages(20) }, { id: "mine" });
      await session.append("/messages", [1]);
      await session.fork("mine", { branch: "side", state: { messages: [] } });
      damage();
      const sp = await open();
      expect(await sp.sessions.delete("s")).toBe(true);
      expect(await sp.sessions.load("s")).toBeUndefined();
      await expect(session.save({ messages: [] })).rejects.toMatchObject({ code: "SESSION_DELETED" });
      const fresh = sp.session<State>("s");
      expect(await fresh.latest()).toBeUndefined();
      expect(await fresh.save({ messages: messages(2) }, { id: "mine" })).toMatchObject({ seq: 0 });
      expect(await fresh.history({ allBranches: true }).all()).toHaveLength(1);
      expect((await (await reopen()).latest())?.state.messages).toHaveLength(2);
    });

    it("in an item or a row does not prevent clearing it", async () => {
      const session = await reopen();
      await grow(session, 3);
      flipItem(0);
      flip(rowKey(0, 1));
      const again = await reopen();
      expect(await again.clear()).toBe(3);
      expect(await again.latest()).toBeUndefined();
      expect((await again.save({ messages: messages(1) })).seq).toBe(3);
    });

    it("in a row with a chosen id does not block that id forever after clearing", async () => {
      const session = await reopen();
      await session.save({ messages: [] }, { id: "mine" });
      flip(rowKey(0, 0));
      const again = await reopen();
      await again.clear();
      expect(await again.load("mine")).toBeUndefined();
      const result = await again.save({ messages: [] }, { id: "mine" }).catch((error: unknown) => error);
      expect(result).toMatchObject({ code: "CONFLICT" });
      expect((await again.save({ messages: [] })).seq).toBe(1);
    });
  });

  describe("found by compaction", () => {
    it("frees nothing of its session, and all garbage elsewhere", async () => {
      const sp = await open();
      const [a, b] = [sp.session<State>("a"), sp.session<State>("b")];
      for (const session of [a, b]) await grow(session, 3);
      for (const session of [a, b]) await session.clear();
      for (const session of [a, b]) {
        const [first] = await grow(session, 3);
        await session.fork(first ?? "", { branch: "side", state: { messages: messages(50) } });
      }
      flip(rowKey(0, 4));
      const report = await (await open()).compact();
      expect(report.items).toBe(0);
      expect(file.events.some(({ reason }) => /nothing was freed/.test(reason))).toBe(true);
      for (const id of ["a", "b"]) {
        const again = (await open()).session<State>(id, { branch: "side" });
        expect((await again.latest())?.state.messages).toEqual(messages(50));
        expect((await (await open()).session<State>(id).latest())?.state.messages).toHaveLength(22);
      }
    });

    it("in the record that names a session frees nothing of it, nor of a save in progress", async () => {
      const sp = await open();
      const session = sp.session<State>("s");
      await grow(session, 3);
      flip(sessionNumberKey(0));
      const compacting = (await open()).compact();
      const saving: Promise<unknown>[] = [];
      for (let n = 0; n < 30; n++) saving.push(session.append("/messages", [message(n)]));
      await Promise.all([compacting, ...saving]);
      await (await open()).compact();
      expect((await (await reopen()).latest())?.state.messages).toHaveLength(52);
    });
  });
});
