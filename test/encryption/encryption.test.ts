import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isSavepointError, Savepoint } from "../../src/index.js";
import { encryptStore, openDataKeys, parseKeyRing } from "../../src/encryption/index.js";
import { type Frame, SEAL_MARKER } from "../../src/store/index.js";
import type { Store } from "../../src/store.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { CANARY, contentOf, everythingIn, fill, key, memory, NEW, OLD, open, scanOf } from "./lab.js";
import { onDisk } from "./stored-bytes.js";

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return isSavepointError(error) ? error.code : String(error);
};

/** A store in memory with two saved sessions. */
async function saved(): Promise<Store> {
  const store = memory();
  const sp = await open(store, { key: OLD });
  for (const id of ["a", "b"])
    await sp.session(id).save({ text: `state of ${id}`, list: [1, 2, { id }], scan: scanOf(id) });
  await sp.close();
  return store;
}

const recordOf = async (store: Store, name: string): Promise<{ key: string; value: string; refs: string }> => {
  const [record] = await store.get([name]);
  if (!record || !("value" in record)) throw new Error(`no record ${name}`);
  return record;
};

const tapesOf = (store: Store): Promise<string[]> => store.tapes({ from: "", to: "\u{10ffff}" });

describe("an encrypted store", () => {
  it("returns everything that was saved, in a new process too, and contains none of it in plain", async () => {
    const store = memory();
    const sp = await open(store, { key: OLD });
    await fill(sp);
    const content = await contentOf(sp);
    await sp.close();
    const reopened = await open(store, { key: OLD });
    expect(await contentOf(reopened)).toEqual(content);
    expect(content).toMatchObject({ ok: true, problems: [] });
    await reopened.compact();
    expect(await contentOf(reopened)).toEqual(content);
    await reopened.close();
    expect(await everythingIn(store)).not.toContain("canary");
  });

  it("has no plain byte in any file, while it is open and afterwards", async () => {
    const folder = await makeFolder();
    for (const url of [`sqlite:${join(folder, "s", "store.db")}`, `file:${join(folder, "f", "store")}`]) {
      const sp = await open(url, { key: OLD });
      await fill(sp);
      expect(onDisk(folder, "canary")).toEqual([]);
      await sp.search(CANARY);
      await sp.close();
      expect(onDisk(folder, "canary")).toEqual([]);
    }
    await removeFolder(folder);
  });

  it("does not open without a key, with another key, or as a plain store", async () => {
    const store = await saved();
    expect(await codeOf(open(store))).toBe("KEY_REQUIRED");
    expect(await codeOf(open(store, { key: NEW }))).toBe("WRONG_KEY");
    expect(await codeOf(open(store, { current: "a", keys: { a: NEW, b: key(9) } }))).toBe("WRONG_KEY");
    expect(await codeOf(Savepoint.open(store, { readOnly: true }))).toBe("KEY_REQUIRED");
    const plain = memory();
    await (await open(plain)).session("s").save(1);
    expect(await codeOf(open(plain, { key: OLD }))).toBe("NOT_ENCRYPTED");
    const sp = await open(store, { current: "any name", keys: { other: NEW, "any name": OLD } });
    expect((await sp.session("a").latest())?.state).toMatchObject({ text: "state of a" });
  });

  it("rejects invalid options before it opens anything", async () => {
    const invalid = [
      { key: key(1).slice(1) },
      { key: "secret" },
      { current: "a", keys: {} },
      {},
      { current: "a", provider: {} },
    ];
    for (const encryption of invalid) {
      expect(await codeOf(open("sqlite:/nowhere/at/all.db", encryption as never))).toBe("INVALID_ARGUMENT");
    }
  });

  it("can be opened read-only and with a scope", async () => {
    const store = memory();
    const admin = await open(store, { key: OLD });
    await fill(admin);
    const reader = await Savepoint.open(store, { readOnly: true, encryption: { key: OLD } });
    expect(await contentOf(reader)).toEqual(await contentOf(admin));
    expect(await codeOf(reader.session("order").save(1))).toBe("READ_ONLY");
    const scoped = await Savepoint.open(store, { scope: { agent: "shop-floor" }, encryption: { key: OLD } });
    expect((await scoped.session("order").latest())?.state).toMatchObject({ card: CANARY });
    expect(await scoped.session("run").latest()).toBeUndefined();
    await scoped.session("order").append("/messages", [{ role: "user", content: "scoped" }]);
    await scoped.sessions.delete("order");
    expect(await admin.session("order").latest()).toBeUndefined();
    expect(await codeOf(scoped.rekey())).toBe("OUT_OF_SCOPE");
  });

  it("deletes the data key of what is deleted", async () => {
    const store = await saved();
    const sp = await open(store, { key: OLD });
    const keysBefore = (await sp.keys())[0]?.dataKeys;
    await sp.sessions.delete("a");
    expect((await sp.keys())[0]?.dataKeys).toBe((keysBefore as number) - 1);
    const talk = await sp.conversations.create({ agent: "shop" });
    await sp.conversations.append(talk.id, [{ role: "user", content: "hello" }]);
    await sp.erase({ conversation: talk.id });
    expect((await sp.keys())[0]?.dataKeys).toBe((keysBefore as number) - 1);
    await sp.session("a").save({ text: "again" });
    expect((await sp.session("a").latest())?.state).toEqual({ text: "again" });
  });

  it("works for a process that remembers the number of a session that was deleted and created again", async () => {
    const store = memory();
    const [one, two] = [await open(store, { key: OLD }), await open(store, { key: OLD })];
    await one.session("s").save({ n: 1 });
    expect((await two.session("s").latest())?.state).toEqual({ n: 1 });
    await one.sessions.delete("s");
    await one.session("s").save({ n: 2 });
    expect((await two.session("s").latest())?.state).toEqual({ n: 2 });
    await two.session("s").update((state) => ({ ...(state as object), m: 3 }));
    expect((await one.session("s").latest())?.state).toEqual({ n: 2, m: 3 });
  });
});

describe("a sealed value", () => {
  const KEYS = ["s\ta", "s\ta\tmain", "zz", "other"];
  const TAPE = "1010";

  /** A store, and its view with records, items and a blob. */
  async function written(): Promise<{ store: Store; view: Store; blob: string }> {
    const store = memory();
    const view = encryptStore(store, await openDataKeys(store, parseKeyRing({ key: OLD }), true));
    const bytes = scanOf("blob");
    const blob = view.blobName?.(bytes) ?? "";
    const items = [1, 2, 3].map((n) => ({ json: `{"n":${n}}`, refs: n === 3 ? "0+2" : "" }));
    await view.commit({
      puts: KEYS.map((name) => ({ key: name, value: `{"n":1,"of":${JSON.stringify(name)}}`, refs: "0+3" })),
      items: [
        { tape: TAPE, first: 0, items },
        { tape: `${TAPE}1`, first: 0, items },
      ],
      blobs: [{ hash: blob, bytes }],
    });
    return { store, view, blob };
  }

  /** Which data cannot be read by a process that opens the store after a change. */
  async function unreadableAfter(change: (store: Store, blob: string) => Promise<unknown>): Promise<string[]> {
    const { store, blob } = await written();
    await change(store, blob);
    const view = encryptStore(store, await openDataKeys(store, parseKeyRing({ key: OLD }), true));
    const [records, items, bytes] = [
      await view.get(KEYS),
      await view.items([{ tape: TAPE, start: 0, count: 3 }]),
      await view.blob(blob),
    ];
    return [
      ...records.flatMap((record) => (record && "unreadable" in record ? [record.key] : [])),
      ...items.flatMap((item, n) => ("unreadable" in item ? [String(n)] : [])),
      ...("unreadable" in bytes ? ["blob"] : []),
    ];
  }

  const changeValue = (change: (value: string) => string) => async (store: Store) => {
    const record = await recordOf(store, "zz");
    await store.commit({ puts: [{ ...record, value: change(record.value) }] });
  };

  const replaceItems = async (store: Store, change: (frames: Frame[], others: Frame[]) => Frame[]): Promise<void> => {
    const span = { start: 0, count: 3 };
    const [own, others] = [
      await store.items([{ tape: `e${TAPE}`, ...span }]),
      await store.items([{ tape: `e${TAPE}1`, ...span }]),
    ] as [Frame[], Frame[]];
    await store.retain(`e${TAPE}`, [], { below: 9 });
    await store.commit({ items: [{ tape: `e${TAPE}`, first: 0, items: change(own, others) }] });
  };

  it("is readable if nothing was changed", async () => {
    expect(await unreadableAfter(async () => {})).toEqual([]);
  });

  it("that was moved to another record is unreadable", async () => {
    const swapped = await unreadableAfter(async (store) => {
      const [a, b] = [await recordOf(store, "s\ta"), await recordOf(store, "s\ta\tmain")];
      await store.commit({
        puts: [
          { ...a, value: b.value },
          { ...b, value: a.value },
        ],
      });
    });
    expect(swapped).toEqual(["s\ta", "s\ta\tmain"]);
  });

  it("that was moved to another number or tape is unreadable", async () => {
    const reversed = (store: Store): Promise<void> => replaceItems(store, (frames) => [...frames].reverse());
    expect(await unreadableAfter(reversed)).toEqual(["0", "2"]);
    expect(await unreadableAfter((store) => replaceItems(store, (_, others) => others))).toEqual(["0", "1", "2"]);
  });

  it("with other references is unreadable", async () => {
    const records = await unreadableAfter(async (store) => {
      await store.commit({ puts: [{ ...(await recordOf(store, "zz")), refs: "0+2" }] });
    });
    expect(records).toEqual(["zz"]);
    const items = await unreadableAfter((store) =>
      replaceItems(store, (frames) => frames.map(({ json, refs }) => ({ json, refs: refs === "" ? refs : "0+1" }))),
    );
    expect(items).toEqual(["2"]);
  });

  it.each([
    ["truncated", (value: string) => value.slice(0, -8)],
    ["shorter than a frame", (value: string) => value.slice(0, 21)],
    ["changed", (value: string) => value.slice(0, 60) + (value[60] === "A" ? "B" : "A") + value.slice(61)],
    ["of another version", (value: string) => `${SEAL_MARKER}Ag${value.slice(3)}`],
    ["empty", () => SEAL_MARKER],
    ["plain", () => '{"n":1,"of":"zz"}'],
    ["not base64", () => `${SEAL_MARKER}???`],
  ])("that is %s is unreadable", async (_, change) => {
    expect(await unreadableAfter(changeValue(change))).toEqual(["zz"]);
  });

  it("of another store with the same key is unreadable", async () => {
    const other = await written();
    const copied = await unreadableAfter(async (store) => {
      await store.commit({ puts: [await recordOf(other.store, "zz"), await recordOf(other.store, "s\ta")] });
    });
    expect(copied).toEqual(["s\ta", "zz"]);
  });

  it("whose data key was replaced by another one or deleted is unreadable", async () => {
    const replaced = await unreadableAfter(async (store) => {
      await store.commit({
        puts: [{ ...(await recordOf(store, "e\t11")), value: (await recordOf(store, "e\t-")).value }],
      });
    });
    expect(replaced).toEqual(["s\ta", "s\ta\tmain"]);
    const deleted = await unreadableAfter((store) => store.commit({ deletes: ["e\t10"] }));
    expect(deleted).toEqual(["0", "1", "2"]);
  });

  it("of a blob that is plain or of another kind is unreadable", async () => {
    const plain = await unreadableAfter(async (store, blob) => {
      await store.dropBlobs([blob], { unusedSince: Infinity });
      await store.commit({ blobs: [{ hash: blob, bytes: scanOf("blob") }] });
    });
    expect(plain).toEqual(["blob"]);
    const record = await unreadableAfter(async (store, blob) => {
      await store.dropBlobs([blob], { unusedSince: Infinity });
      const bytes = Buffer.from((await recordOf(store, "other")).value.slice(1), "base64");
      await store.commit({ blobs: [{ hash: blob, bytes }] });
    });
    expect(record).toEqual(["blob"]);
  });

  it("is the same for the same content at the same place, and differs at another place", async () => {
    const { store, view } = await written();
    const before = await recordOf(store, "zz");
    await view.commit({ puts: [{ key: "zz", value: '{"n":1,"of":"zz"}', refs: "0+3" }] });
    expect(await recordOf(store, "zz")).toEqual(before);
    await view.commit({ puts: [{ key: "zy", value: '{"n":1,"of":"zz"}', refs: "0+3" }] });
    expect((await recordOf(store, "zy")).value.slice(0, 30)).not.toBe(before.value.slice(0, 30));
  });

  it("in a plain store is damaged, and damage in an encrypted store is reported like any other", async () => {
    const plain = memory();
    await (await open(plain)).session("a").save({ plain: true });
    const rows = await plain.list({ from: "z", to: "{" }, { limit: 9 });
    const [foreign] = await (await saved()).list({ from: "z", to: "{" }, { limit: 1 });
    await plain.commit({
      puts: rows.flatMap((row) => (foreign && "value" in foreign ? [{ ...foreign, key: row.key }] : [])),
    });
    const { ok } = await (await open(plain)).verify();
    expect(ok).toBe(false);
    const store = await saved();
    for (const tape of await tapesOf(store)) await store.retain(tape, [], { below: 99 });
    const sp = await Savepoint.open(store, { encryption: { key: OLD }, on: { damage: () => {} } });
    expect(await codeOf(sp.session("a").latest())).toBe("DAMAGED");
  });

  it("of the encryption itself is authenticated", async () => {
    const store = await saved();
    const header = await recordOf(store, "o");
    await store.commit({ puts: [{ ...header, value: header.value.replace('"ready"', '"converting"') }] });
    expect(await codeOf(open(store, { key: OLD }))).toBe("DAMAGED");
    await store.commit({ deletes: ["o"] });
    expect(await codeOf(open(store, { key: OLD }))).toBe("NOT_ENCRYPTED");
  });
});
