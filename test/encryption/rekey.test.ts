import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isSavepointError, type KeyProvider, Savepoint } from "../../src/index.js";
import { openMemoryStore, type Store } from "../../src/store.js";
import { overrideStore, readOnlyView } from "../../src/store/shared/store-view.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { CANARY, contentOf, dyingStore, everythingIn, fill, key, memory, NEW, OLD, open, scanOf } from "./lab.js";
import { onDisk } from "./stored-bytes.js";

const BOTH = { current: "new", keys: { new: NEW, old: OLD } };

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return isSavepointError(error) ? error.code : String(error);
};

describe("sp.rekey()", () => {
  it("encrypts every data key with the current key, and nothing else changes", async () => {
    const store = memory();
    const before = await open(store, { key: OLD });
    await fill(before);
    const content = await contentOf(before);
    const sp = await open(store, BOTH);
    await sp.session("new one").save({ n: 1 });
    const uses = await sp.keys();
    expect(new Map(uses.map(({ name, current }) => [name, current]))).toEqual(
      new Map([
        ["new", false],
        ["old", true],
      ]),
    );
    const seen: number[] = [];
    const report = await sp.rekey({ onProgress: ({ done }) => void seen.push(done) });
    expect(report.keys).toBe(uses.find(({ name }) => name === "old")?.dataKeys);
    expect(seen.at(-1)).toBe(report.total);
    expect(await sp.keys()).toEqual([
      { fingerprint: report.fingerprint, name: "new", current: true, dataKeys: report.total },
    ]);
    expect((await sp.verify()).keys).toEqual(await sp.keys());
    expect(await sp.rekey()).toMatchObject({ keys: 0, total: report.total });
    expect(await codeOf(open(store, { key: OLD }))).toBe("WRONG_KEY");
    const after = await open(store, { key: NEW });
    expect(await contentOf(after)).toEqual(content);
  });

  it("lets processes with the old key continue with their sessions, but not create new ones", async () => {
    const store = memory();
    const old = await open(store, { key: OLD });
    const both = await open(store, { current: "old", keys: BOTH.keys });
    await old.session("a").save({ n: 1 });
    await both.session("b").save({ n: 1 });
    await (await open(store, BOTH)).rekey();
    await old.session("a").save({ n: 2 });
    expect(await codeOf(old.session("c").save({ n: 1 }))).toBe("WRONG_KEY");
    expect(await codeOf(old.session("b").latest())).toBe("WRONG_KEY");
    // A process that has both keys uses the newer one from then on, although its option names the older one.
    await both.session("d").save({ n: 1 });
    const sp = await open(store, { key: NEW });
    expect((await sp.session("a").latest())?.state).toEqual({ n: 2 });
    expect((await sp.session("d").latest())?.state).toEqual({ n: 1 });
    expect(await sp.keys()).toHaveLength(1);
  });

  it("can be interrupted after any commit, and continued", async () => {
    for (let commits = 0; ; commits++) {
      const store = memory();
      const sp = await open(store, { key: OLD });
      for (let n = 0; n < 70; n++) await sp.session(`s${n}`).save({ n });
      const dying = await open(dyingStore(store, commits), BOTH);
      const isComplete = (await codeOf(dying.rekey())) === "undefined";
      const next = await open(store, BOTH);
      expect((await next.session("s7").latest())?.state).toEqual({ n: 7 });
      await next.rekey();
      const after = await open(store, { key: NEW });
      for (const n of [0, 42, 69]) expect((await after.session(`s${n}`).latest())?.state).toEqual({ n });
      if (isComplete) break;
    }
  });

  it("runs beside writers, and loses nothing", async () => {
    const folder = await makeFolder();
    const url = `sqlite:${join(folder, "store.db")}`;
    const writer = await Savepoint.open(url, {
      encryption: { current: "old", keys: BOTH.keys },
      durability: "process",
    });
    const rotator = await Savepoint.open(url, { encryption: BOTH, durability: "process" });
    let isDone = false;
    const work = Array.from({ length: 4 }, async (_, lane) => {
      let n = 0;
      for (; !isDone || n < 5; n++) {
        await writer.session(`lane ${lane}`).save({ n });
        await writer.session(`new ${lane} ${n}`).save({ n });
      }
      return n;
    });
    for (let round = 0; round < 3; round++) await rotator.rekey();
    isDone = true;
    const counts = await Promise.all(work);
    await rotator.rekey();
    await Promise.all([writer.close(), rotator.close()]);
    const sp = await Savepoint.open(url, { encryption: { key: NEW } });
    for (const [lane, count] of counts.entries()) {
      expect((await sp.session(`lane ${lane}`).latest())?.state).toEqual({ n: count - 1 });
      for (let n = 0; n < count; n++) expect((await sp.session(`new ${lane} ${n}`).latest())?.state).toEqual({ n });
    }
    expect(await sp.keys()).toHaveLength(1);
    await sp.close();
    await removeFolder(folder);
  });

  it("changes the key back completely in a process that opened the store before the last change", async () => {
    const store = memory();
    const early = await open(store, { current: "old", keys: BOTH.keys });
    await early.session("a").save({ n: 1 });
    const onlyOld = await open(store, { key: OLD });
    await (await open(store, BOTH)).rekey();
    expect(await codeOf(onlyOld.rekey())).toBe("WRONG_KEY");
    const { total } = await early.rekey();
    expect(await early.keys()).toMatchObject([{ name: "old", current: true, dataKeys: total }]);
    const sp = await open(store, { key: OLD });
    expect((await sp.session("a").latest())?.state).toEqual({ n: 1 });
    await sp.session("b").save({ n: 1 });
    expect(await codeOf(open(store, { key: NEW }))).toBe("WRONG_KEY");
  });

  it("stops when another process sets a different key, and encrypts no data key with its own key", async () => {
    const store = memory();
    const keys = { ...BOTH.keys, newer: key(3) };
    await (await open(store, { key: OLD })).session("a").save({ n: 1 });
    let commits = 0;
    const paused = overrideStore(store, {
      commit: async (commit) => {
        // Before the second commit. The first one has replaced the header.
        if (commits++ === 1) await (await open(store, { current: "newer", keys })).rekey();
        return store.commit(commit);
      },
    });
    const rotating = await open(paused, { current: "new", keys });
    await expect(rotating.rekey()).rejects.toMatchObject({ code: "CONFLICT", message: expect.stringContaining("key") });
    expect(commits).toBe(2);
    const sp = await open(store, { key: keys.newer });
    expect(await sp.keys()).toMatchObject([{ current: true, dataKeys: 2 }]);
    expect((await sp.session("a").latest())?.state).toEqual({ n: 1 });
  });

  it("works with a provider, which wraps one key for each name", async () => {
    const calls: string[] = [];
    const masks = new Map([
      ["one", 0x5a],
      ["two", 0xa5],
    ]);
    const mask = (name: string, bytes: Uint8Array): Uint8Array =>
      bytes.map((byte) => byte ^ (masks.get(name) as number));
    const provider: KeyProvider = {
      wrap: async (name, bytes) => {
        calls.push(`wrap ${name}`);
        return mask(name, bytes);
      },
      unwrap: async (name, wrapped) => {
        calls.push(`unwrap ${name}`);
        return mask(name, wrapped);
      },
    };
    const store = memory();
    const sp = await open(store, { current: "one", provider });
    for (let n = 0; n < 5; n++) await sp.session(`s${n}`).save({ n });
    expect(calls).toEqual(["wrap one"]);
    const next = await open(store, { current: "two", provider });
    await next.session("new").save({ n: 1 });
    expect((await next.session("s1").latest())?.state).toEqual({ n: 1 });
    expect(calls).toEqual(["wrap one", "unwrap one", "wrap two"]);
    expect((await next.rekey()).keys).toBe(6);
    expect((await next.keys()).map(({ name }) => name)).toEqual(["two"]);
    masks.delete("one");
    const last = await open(store, { current: "two", provider });
    expect((await last.session("s4").latest())?.state).toEqual({ n: 4 });
    expect(await codeOf(open(store, { key: OLD }))).toBe("WRONG_KEY");
  });

  it("without `to` needs an encrypted store, and with `to` a plain one", async () => {
    expect(await codeOf((await open(memory())).rekey())).toBe("NOT_ENCRYPTED");
    const sp = await open(memory(), { key: OLD });
    expect(await codeOf(sp.rekey({ to: { key: NEW } }))).toBe("INVALID_ARGUMENT");
  });
});

describe("sp.rekey({ to })", () => {
  it("encrypts everything that was saved", async () => {
    const store = memory();
    const sp = await open(store);
    await fill(sp);
    const content = await contentOf(sp);
    await sp.rekey({ to: { key: OLD } });
    expect(await everythingIn(store)).not.toContain("canary");
    expect(await contentOf(sp)).toEqual(content);
    await sp.session("order").save({ scan: scanOf(CANARY), messages: [] });
    const reopened = await open(store, { key: OLD });
    expect((await reopened.session("order").latest())?.state).toEqual({ scan: scanOf(CANARY), messages: [] });
    expect(await codeOf(open(store))).toBe("KEY_REQUIRED");
    expect((await reopened.keys())[0]?.dataKeys).toBeGreaterThan(3);
  });

  it("is completed by the next process with the key, wherever it was interrupted", async () => {
    const plain = memory();
    const first = await open(plain);
    await fill(first);
    const content = await contentOf(first);
    let isComplete = false;
    for (let steps = 0; !isComplete; steps += 7) {
      const store = await copyOf(plain);
      const sp = await open(dyingStore(store, steps));
      isComplete = (await codeOf(sp.rekey({ to: { key: OLD } }))) === "undefined";
      if (!isComplete && steps > 0) {
        expect(await codeOf(sp.session("order").latest())).toBe("KEY_REQUIRED");
        expect(await codeOf(open(store))).toBe("KEY_REQUIRED");
        expect(await codeOf(Savepoint.open(readOnlyView(store), { readOnly: true, encryption: { key: OLD } }))).toBe(
          "READ_ONLY",
        );
        // The next attempt is interrupted too.
        await codeOf(open(dyingStore(store, 20), { key: OLD }));
      }
      if (steps === 0) continue;
      const next = await open(store, { key: OLD });
      expect(await contentOf(next)).toEqual(content);
      expect(await everythingIn(store)).not.toContain("canary");
    }
  });

  it("leaves no plain byte in any file", async () => {
    const folder = await makeFolder();
    for (const url of [`sqlite:${join(folder, "s", "store.db")}`, `file:${join(folder, "f", "store")}`]) {
      const sp = await open(url);
      await fill(sp);
      await sp.search(CANARY);
      expect(onDisk(folder, "canary")).not.toEqual([]);
      await sp.rekey({ to: { key: OLD } });
      expect(onDisk(folder, "canary")).toEqual([]);
      expect(await contentOf(sp)).toMatchObject({ ok: true });
      await sp.close();
      expect(onDisk(folder, "canary")).toEqual([]);
    }
    await removeFolder(folder);
  });

  it("is rejected while another process may have the store open, and by its first write afterwards", async () => {
    const folder = await makeFolder();
    const url = `sqlite:${join(folder, "store.db")}`;
    const [sp, other, late] = await Promise.all([open(url), open(url), open(url)]);
    await sp.session("a").save({ n: 1 });
    await other.session("b").save({ n: 1 });
    expect(await codeOf(sp.rekey({ to: { key: OLD } }))).toBe("BUSY");
    await sp.session("a").save({ n: 2 });
    await other.close();
    await sp.rekey({ to: { key: OLD } });
    expect(await codeOf(late.session("c").save({ n: 1 }))).toBe("KEY_REQUIRED");
    expect((await sp.session("a").latest())?.state).toEqual({ n: 2 });
    await Promise.all([sp.close(), late.close()]);
    await removeFolder(folder);
  });

  it("makes saves of this process wait, and loses none of them", async () => {
    const store: Store = memory();
    const sp = await open(store);
    await sp.session("s").save({ scan: scanOf("x"), list: [0] });
    const rekeying = sp.rekey({ to: { key: OLD } });
    const appends = Array.from({ length: 20 }, (_, n) => sp.session("s").append("/list", [n + 1]));
    await Promise.all([rekeying, ...appends]);
    const state = (await (await open(store, { key: OLD })).session("s").latest())?.state as { list: number[] };
    expect(state.list).toEqual(Array.from({ length: 21 }, (_, n) => n));
    expect(await everythingIn(store)).not.toContain('"list"');
  });
});

/** A copy of a store in memory. */
async function copyOf(from: Store): Promise<Store> {
  const to = openMemoryStore();
  const all = { from: "", to: "\u{10ffff}" };
  const puts = (await from.list(all, { limit: 10_000 })).flatMap((record) => ("value" in record ? [record] : []));
  await to.commit({ puts });
  for (const tape of await from.tapes(all)) {
    const items = await from.items([{ tape, start: 0, count: 300 }]);
    await to.commit({
      items: items.flatMap((item, first) => ("json" in item ? [{ tape, first, items: [item] }] : [])),
    });
  }
  for (const hash of await from.blobs({ after: "", limit: 100 })) {
    const bytes = await from.blob(hash);
    if (!("unreadable" in bytes)) await to.commit({ blobs: [{ hash, bytes }] });
  }
  return to;
}
