/** Attacks on encrypted stores by someone who can write their files and tables but has no key. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { randomBytes } from "node:crypto";
import { DataKey } from "../../src/encryption/data-key.js";
import { encryptStore, openDataKeys, parseKeyRing } from "../../src/encryption/index.js";
import { isSavepointError, type KeyProvider, Savepoint } from "../../src/index.js";
import type { Store } from "../../src/store.js";
import { sealedBytes } from "../../src/store/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { overrideStore } from "../../src/store/shared/store-view.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { key, memory, NEW, OLD, open, scanOf } from "./lab.js";
import { onDisk } from "./stored-bytes.js";

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return isSavepointError(error) ? error.code : String(error);
};

const viewOf = async (store: Store): Promise<Store> =>
  encryptStore(store, await openDataKeys(store, parseKeyRing({ key: OLD }), true));

const valueOf = async (store: Store, name: string): Promise<string> => {
  const [record] = await store.get([name]);
  if (!record || !("value" in record)) throw new Error(`no record ${name}`);
  return record.value;
};

describe("an attacker who writes to an encrypted store", () => {
  it("cannot exchange two blobs, also if the store does not verify their names", async () => {
    const store = memory();
    const view = await viewOf(store);
    const [one, two] = [scanOf("one"), scanOf("two")];
    const [first, second] = [view.blobName?.(one) ?? "", view.blobName?.(two) ?? ""];
    await view.commit({
      blobs: [
        { hash: first, bytes: one },
        { hash: second, bytes: two },
      ],
    });
    const frame = await store.blob(second);
    if ("unreadable" in frame) throw new Error(frame.unreadable);
    await store.dropBlobs([first], { unusedSince: Infinity });
    await store.commit({ blobs: [{ hash: first, bytes: frame }] });
    expect(await view.blob(first)).toHaveProperty("unreadable");
    expect(await view.blob(second)).toEqual(two);
  });

  it("cannot give a frame another form that decrypts", async () => {
    const store = memory();
    const view = await viewOf(store);
    await view.commit({ puts: [{ key: "zz", value: "content" }] });
    const frame = Buffer.from((await valueOf(store, "zz")).slice(1), "base64");
    // The number of the data key in two bytes instead of one.
    expect([...frame.subarray(0, 2)]).toEqual([1, 0]);
    const longer = Buffer.concat([Buffer.from([1, 128, 0]), frame.subarray(2)]);
    await store.commit({ puts: [{ key: "zz", value: `\u0002${longer.toString("base64")}` }] });
    expect((await (await viewOf(store)).get(["zz"]))[0]).toHaveProperty("unreadable");
    const huge = Buffer.concat([Buffer.from([1, 255, 255, 255, 255, 255, 255, 255, 127]), frame.subarray(2)]);
    await store.commit({ puts: [{ key: "zz", value: `\u0002${huge.toString("base64")}` }] });
    expect((await (await viewOf(store)).get(["zz"]))[0]).toHaveProperty("unreadable");
  });

  it("who stores a data key for the next session gets DAMAGED reported, not a conflict", async () => {
    const store = memory();
    const sp = await open(store, { key: OLD });
    await sp.session("a").save({ n: 1 });
    const next = await valueOf(store, "#");
    const record = `e\t1${Number(next).toString(36)}`;
    await store.commit({ puts: [{ key: record, value: await valueOf(store, "e\t-") }] });
    expect(await codeOf((await open(store, { key: OLD })).session("b").save({ n: 1 }))).toBe("DAMAGED");
    expect((await sp.session("a").latest())?.state).toEqual({ n: 1 });
  });

  it("cannot choose the master key of a provider by storing another key under its name and another fingerprint", async () => {
    const calls: string[] = [];
    const provider = maskingProvider(calls);
    const store = memory();
    await (await open(store, { current: "one", provider })).session("a").save({ n: 1 });
    const foreign = await provider.wrap("two", key(7));
    await store.commit({
      puts: [
        {
          key: "e\tk0000000000000000",
          value: JSON.stringify({ name: "two", wrapped: Buffer.from(foreign).toString("base64") }),
        },
      ],
    });
    const sp = await open(store, { current: "two", provider });
    expect(await codeOf(sp.session("b").save({ n: 2 }))).toBe("DAMAGED");
  });
});

it("an encrypted store with more data keys than fit in memory still encrypts blobs", async () => {
  const store = memory();
  const keys = await openDataKeys(store, parseKeyRing({ key: OLD }), true);
  const view = encryptStore(store, keys);
  const name = view.blobName?.(scanOf("one"));
  for (let number = 0; number <= 10_000; number++) keys.set(new DataKey(number, randomBytes(32)));
  expect(view.blobName?.(scanOf("one"))).toBe(name);
});

it("two frames with the same nonce have the same content and place, also with lone surrogates", () => {
  const alphabet = ["\ud83d", "\ude00", "\ufffd", "1", ":", "é", "e\u0301"];
  const strings = ["", ...alphabet, ...alphabet.flatMap((a) => alphabet.map((b) => a + b))];
  const dataKey = new DataKey(7, OLD);
  const contents = new Map<string, string>();
  for (const place of strings) {
    for (const text of strings) {
      const sealed = sealedBytes(dataKey.seal(place, text)) as Buffer;
      const nonce = sealed.subarray(2, 14).toString("hex");
      const content = JSON.stringify([place, text].map((part) => Buffer.from(part).toString("hex")));
      expect(contents.get(nonce) ?? content, content).toBe(content);
      contents.set(nonce, content);
    }
  }
  expect(contents.size).toBeGreaterThan(strings.length);
});

/** A provider that hides keys with a mask, one for each name. */
function maskingProvider(calls: string[]): KeyProvider {
  const mask = (name: string, bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte ^ name.length ^ 0x5a);
  return {
    wrap: async (name, bytes) => {
      calls.push(`wrap ${name}`);
      return mask(name, bytes);
    },
    unwrap: async (name, wrapped) => {
      calls.push(`unwrap ${name}`);
      return mask(name, wrapped);
    },
  };
}

describe("a key provider", () => {
  it("that is asked by several calls at once wraps one key, which is stored before it is used", async () => {
    const calls: string[] = [];
    const ring = parseKeyRing({ current: "one", provider: maskingProvider(calls) });
    const [a, b] = await Promise.all([ring.current(async () => []), ring.current(async () => [])]);
    expect(calls).toEqual(["wrap one"]);
    expect(b.key).toBe(a.key);
    // Neither of the two was stored: the key must be stored with the next use.
    expect((await ring.current(async () => [])).unstored?.fingerprint).toBe(a.key.fingerprint);
  });

  it("that fails or returns other bytes is reported as such, and nothing is written", async () => {
    const store = memory();
    await (await open(store, { current: "one", provider: maskingProvider([]) })).session("a").save({ n: 1 });
    const other: KeyProvider = { ...maskingProvider([]), unwrap: async () => key(5) };
    expect(await codeOf(open(store, { current: "one", provider: other }))).toBe("DAMAGED");
    const short: KeyProvider = { ...maskingProvider([]), unwrap: async () => new Uint8Array(3) };
    expect(await codeOf(open(store, { current: "one", provider: short }))).toBe("UNAVAILABLE");
    const down: KeyProvider = {
      ...maskingProvider([]),
      unwrap: async () => {
        throw new Error("the KMS is down");
      },
    };
    expect(await codeOf(open(store, { current: "one", provider: down }))).toBe("UNAVAILABLE");
    await expect(open(store, { current: "one", provider: down })).rejects.toMatchObject({
      cause: { message: "the KMS is down" },
    });
  });
});

describe("a process with an outdated ring", () => {
  const keys = { old: OLD, new: NEW };

  it("that is started after a rotation encrypts nothing with the former key", async () => {
    const store = memory();
    await (await open(store, { key: OLD })).session("a").save({ n: 1 });
    await (await open(store, { current: "new", keys })).rekey();
    const stale = await open(store, { current: "old", keys });
    await stale.session("b").save({ n: 2 });
    expect((await stale.keys()).map(({ name }) => name)).toEqual(["new"]);
    expect((await (await open(store, { key: NEW })).session("b").latest())?.state).toEqual({ n: 2 });
  });

  it("can change the key back explicitly", async () => {
    const store = memory();
    await (await open(store, { key: OLD })).session("a").save({ n: 1 });
    await (await open(store, { current: "new", keys })).rekey();
    await (await open(store, { current: "old", keys })).rekey();
    const sp = await open(store, { key: OLD });
    await sp.session("b").save({ n: 2 });
    expect(await sp.keys()).toHaveLength(1);
    const late = await open(store, { current: "new", keys });
    await late.session("c").save({ n: 3 });
    expect((await late.keys()).map(({ name }) => name)).toEqual(["old"]);
  });
});

describe("an empty store", () => {
  it("that another process fills while it becomes encrypted stays plain", async () => {
    const store = durable(memory());
    const plain = await open(store);
    const racing = racingStore(store, () => plain.session("s").save({ n: 1 }));
    expect(await codeOf(open(racing, { key: OLD }))).toBe("NOT_ENCRYPTED");
    await plain.session("s").save({ n: 2 });
    expect((await (await open(store)).session("s").latest())?.state).toEqual({ n: 2 });
    expect(await store.get(["o", "e\t-"])).toEqual([undefined, undefined]);
  });

  it("that a plain process has only registered in does not get plain content from it once it is encrypted", async () => {
    const store = durable(memory());
    const plain = await open(store);
    const racing = racingStore(store, () => plain.retention.set({ agent: "shop" }, { keepLast: 5 }));
    const sp = await open(racing, { key: OLD });
    expect(await codeOf(plain.session("s").save({ n: 1 }))).toBe("KEY_REQUIRED");
    await sp.session("s").save({ n: 2 });
    expect((await (await open(store, { key: OLD })).session("s").latest())?.state).toEqual({ n: 2 });
  });
});

/** A store in memory that claims to be durable: then a plain process looks for the header of an encrypted store. */
function durable(store: Store): Store {
  return overrideStore(store, { capabilities: { durable: true, shared: false } });
}

/** A view of a store in which another process does something directly after the store was found to be empty. */
function racingStore(store: Store, race: () => Promise<unknown>): Store {
  let hasRaced = false;
  return overrideStore(store, {
    list: async (...parameters) => {
      const page = await store.list(...parameters);
      if (page.length === 0 && !hasRaced) {
        hasRaced = true;
        await race();
      }
      return page;
    },
  });
}

describe("encrypting a plain store", () => {
  it("removes what was moved to savepoint_lost", async () => {
    const folder = await makeFolder();
    const url = `sqlite:${join(folder, "store.db")}`;
    const sp = await Savepoint.open(url, { durability: "process" });
    await sp.session("s").save({ n: 1 });
    await sp.close();
    const database = await openDatabase(join(folder, "store.db"));
    database.exec("INSERT INTO savepoint_lost (keys, keys_sum, sum, body) VALUES ('[]', 1, 1, 'lost canary')");
    database.close();
    const again = await Savepoint.open(url, { durability: "process" });
    await again.rekey({ to: { key: OLD } });
    expect(onDisk(folder, "canary")).toEqual([]);
    await again.close();
    await removeFolder(folder);
  });
});
