// Bundles and backups of encrypted stores: sealed outside, independent of the store's key inside.
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { platform } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseKeyRing, sealStream, unsealStream } from "../../src/encryption/index.js";
import { MasterKey } from "../../src/encryption/master-key.js";
import { type EncryptionOptions, isSavepointError, type KeyProvider, Savepoint } from "../../src/index.js";
import type { Store } from "../../src/store.js";
import { exportWithPause } from "../bundle/bytes.js";
import { fillStore, noise, wholeOf } from "../bundle/whole.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { requireOrSkip } from "../support/requires.js";
import { CANARY, contentOf, fill, key, memory, NEW, OLD, open, scanOf } from "./lab.js";
import { onDisk } from "./stored-bytes.js";

const CHUNK = 65_536 + 16;
const EVERYTHING = { from: "", to: "\u{10ffff}" };
const FUTURE = 10_000_000;

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return isSavepointError(error) ? error.code : String(error);
};

let folder: string;
beforeAll(async () => void (folder = await makeFolder()));
afterAll(() => removeFolder(folder));

/** The first line of a sealed bundle, and its chunks. */
function partsOf(bundle: Uint8Array): { readonly line: Buffer; readonly chunks: Buffer[] } {
  const bytes = Buffer.from(bundle);
  const start = bytes.indexOf(10) + 1;
  const chunks: Buffer[] = [];
  for (let from = start; from < bytes.length; from += CHUNK) chunks.push(bytes.subarray(from, from + CHUNK));
  return { line: bytes.subarray(0, start), chunks };
}

function piecesOf(bytes: Uint8Array, size: number): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let from = 0; from < bytes.length; from += size) pieces.push(bytes.subarray(from, from + size));
  return pieces;
}

async function collect(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Whether a session has the same newest checkpoint in both. `toEqual` takes seconds for large attachments. */
async function isSame(a: Savepoint, b: Savepoint, session: string): Promise<boolean> {
  const [first, second] = await Promise.all([a, b].map((sp) => sp.session(session).latest()));
  return first !== undefined && isDeepStrictEqual(first, second);
}

/** An encrypted store with an attachment, whose bundle has several chunks. */
async function withAttachment(encryption: EncryptionOptions = { key: OLD }): Promise<{ sp: Savepoint; store: Store }> {
  const store = memory();
  const sp = await open(store, encryption);
  await sp.session("one").save({ n: 1, scan: noise(1, 90_000), card: CANARY });
  await sp.session("two").save({ n: 2, scan: noise(2, 90_000), same: noise(1, 90_000) });
  return { sp, store };
}

describe("a bundle of an encrypted store", () => {
  it("arrives unchanged in a store of the same key, of another key, and without one; and a plain bundle in an encrypted store", async () => {
    const source = await open(memory(), { key: OLD });
    await fillStore(source);
    const whole = await wholeOf(source);
    const bundle = await source.export().bytes();
    expect(Buffer.from(bundle.subarray(0, 20)).toString()).toBe('{"savepoint":"sealed');
    const same = await open(memory(), { current: "new", keys: { new: NEW, old: OLD } });
    await same.import(bundle);
    const other = await open(memory(), { key: NEW });
    await other.import(bundle, { encryption: { key: OLD } });
    const plain = await open(memory());
    await plain.import(bundle, { encryption: { key: OLD } });
    const back = await open(memory(), { key: key(3) });
    await back.import(plain.export());
    for (const sp of [same, other, plain, back]) {
      expect(isDeepStrictEqual(await wholeOf(sp), whole)).toBe(true);
      expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
    }
    expect((await other.import(bundle, { encryption: { key: OLD } })).sessions).toBe(0);
  });

  it("contains agents, conversations, runs and attachments, and none of them in plain", async () => {
    const source = await open(memory(), { key: OLD });
    await fill(source);
    const bundle = Buffer.from(await source.export().bytes());
    const plainInBase64 = Buffer.from(CANARY.repeat(3)).toString("base64").slice(4, 40);
    for (const text of [CANARY, plainInBase64, "shop-floor", "what-if"]) expect(bundle.includes(text)).toBe(false);
    const target = await open(memory());
    await target.import(bundle, { encryption: { key: OLD } });
    expect(await contentOf(target)).toEqual(await contentOf(source));
    expect((await target.session<{ scan: unknown }>("order").latest())?.state.scan).toEqual(scanOf(CANARY));
    await target.import(await source.export({ session: "order" }).bytes(), { as: "copy", encryption: { key: OLD } });
    expect((await target.session<{ scan: unknown }>("copy").latest())?.state.scan).toEqual(scanOf(CANARY));
  });

  it("is rejected without a key, with another key, and a plain one with a key", async () => {
    const { sp } = await withAttachment();
    const bundle = await sp.export().bytes();
    const plain = await open(memory());
    expect(await codeOf(plain.import(bundle))).toBe("KEY_REQUIRED");
    expect(await codeOf(plain.import(bundle, { encryption: { key: NEW } }))).toBe("WRONG_KEY");
    expect(await codeOf((await open(memory(), { key: NEW })).import(bundle))).toBe("WRONG_KEY");
    expect(await codeOf(plain.verify({ bundle }))).toBe("KEY_REQUIRED");
    expect(await codeOf(sp.import(await plain.export().bytes(), { encryption: { key: OLD } }))).toBe("NOT_ENCRYPTED");
    expect(await codeOf(plain.import(bundle, { encryption: {} as never }))).toBe("INVALID_ARGUMENT");
    expect(await plain.sessions.list().all()).toEqual([]);
  });

  it("with a chunk that was changed, removed, repeated, moved or taken from another bundle is DAMAGED", async () => {
    const { sp } = await withAttachment();
    const bundle = Buffer.from(await sp.export().bytes());
    const { line, chunks } = partsOf(bundle);
    const other = partsOf(await sp.export().bytes());
    expect(chunks.length).toBeGreaterThan(3);
    const flipped = (at: number): Buffer => {
      const copy = Buffer.from(bundle);
      copy[at] = (copy[at] as number) ^ 1;
      return copy;
    };
    const [first, second, third, ...rest] = chunks as [Buffer, Buffer, Buffer, ...Buffer[]];
    const changed: Record<string, Buffer> = {
      swapped: Buffer.concat([line, second, first, third, ...rest]),
      removed: Buffer.concat([line, first, third, ...rest]),
      repeated: Buffer.concat([line, first, first, second, third, ...rest]),
      spliced: Buffer.concat([line, first, other.chunks[1] as Buffer, third, ...rest]),
      "of another header": Buffer.concat([other.line, ...chunks]),
      "without its last chunk": Buffer.concat([line, ...chunks.slice(0, -1)]),
      "with more after its end": Buffer.concat([bundle, first]),
      "with a byte after its end": Buffer.concat([bundle, Buffer.from([0])]),
      "without chunks": line,
      "cut in its first line": line.subarray(0, 60),
    };
    for (const at of [line.length, line.length + 70_000, bundle.length - 1, bundle.length - 20]) {
      changed[`changed at ${at}`] = flipped(at);
    }
    for (const at of [line.length + 5, line.length + CHUNK, line.length + CHUNK + 9, bundle.length - 1]) {
      changed[`cut at ${at}`] = bundle.subarray(0, at);
    }
    const wrapped = line.indexOf('"wrapped":"') + 20;
    changed["with another key of its own"] = flipped(wrapped);
    for (const [how, bytes] of Object.entries(changed)) {
      const target = await open(memory(), { key: OLD });
      expect([how, await codeOf(target.import(bytes))]).toEqual([how, "DAMAGED"]);
      // Sections that are complete may be there, and nothing else.
      const ids = (await target.sessions.list().all()).map(({ id }) => id);
      for (const id of ids) expect(await isSame(target, sp, id)).toBe(true);
    }
  });

  it("that was cut off is continued with the complete one", async () => {
    const { sp } = await withAttachment();
    const bundle = await sp.export().bytes();
    const target = await open(memory(), { key: NEW });
    for (const part of [0.5, 0.9]) {
      const cut = bundle.subarray(0, Math.floor(bundle.length * part));
      expect(await codeOf(target.import(cut, { encryption: { key: OLD } }))).toBe("DAMAGED");
    }
    await target.import(bundle, { encryption: { key: OLD } });
    expect(await isSame(target, sp, "two")).toBe(true);
    expect(await target.verify({ deep: true })).toMatchObject({ ok: true });
  });

  it("of a store that has lost attachments names them, and brings everything else", async () => {
    const { sp, store } = await withAttachment();
    await sp.session("three").save({ text: CANARY });
    await loseBlobs(store);
    const reopened = await Savepoint.open(store, { encryption: { key: OLD }, on: { damage: () => {} } });
    const target = await Savepoint.open(memory(), { encryption: { key: NEW }, on: { damage: () => {} } });
    const { holes } = await target.import(reopened.export(), { encryption: { key: OLD } });
    // One of the two attachments is in both sessions.
    expect(holes.length).toBe(3);
    expect((await target.session("three").latest())?.state).toEqual({ text: CANARY });
    expect(await codeOf(target.session("one").latest())).toBe("DAMAGED");
  });

  it("opens on another machine with the same key provider", async () => {
    const kms: KeyProvider = {
      wrap: async (name, bytes) => Buffer.concat([Buffer.from(name), Buffer.from(bytes.map((each) => each ^ 0x5a))]),
      unwrap: async (name, wrapped) => new Uint8Array(wrapped.subarray(name.length)).map((each) => each ^ 0x5a),
    };
    const { sp } = await withAttachment({ current: "2026", provider: kms });
    const bundle = await sp.export().bytes();
    expect(JSON.parse(partsOf(bundle).line.toString())).toMatchObject({ format: 1, master: { name: "2026" } });
    for (const encryption of [undefined, { current: "2027", provider: kms }]) {
      const target = await open(memory(), encryption);
      await target.import(bundle, { encryption: { current: "2026", provider: kms } });
      expect((await target.session<{ card: string }>("one").latest())?.state.card).toBe(CANARY);
    }
    expect(await codeOf((await open(memory(), { key: OLD })).import(bundle))).toBe("WRONG_KEY");
  });

  it("uses the current key, also if another process has changed it", async () => {
    const { sp, store } = await withAttachment();
    const ring = { current: "new", keys: { new: NEW, old: OLD } };
    const admin = await open(store, ring);
    await admin.rekey();
    const reader = await open(memory(), { key: NEW });
    await reader.import(await admin.export().bytes());
    expect(await codeOf(sp.export().bytes())).toBe("WRONG_KEY");
  });
});

describe("a bundle of a plain store", () => {
  it("that is encrypted during the export is not completed in plain", async () => {
    const sp = await open(memory());
    for (const id of ["one", "two"]) await sp.session(id).save({ card: CANARY, scan: noise(1, 90_000) });
    const encrypt = (): Promise<unknown> => sp.rekey({ to: { key: OLD } });
    expect(await codeOf(exportWithPause(sp.export(), encrypt))).toBe("CONFLICT");
    const target = await open(memory(), { key: OLD });
    await target.import(sp.export());
    expect(await isSame(target, sp, "two")).toBe(true);
  });
});

describe("a sealed stream", () => {
  const seal = (bytes: Uint8Array, piece: number): Promise<Buffer> =>
    collect(sealStream(piecesOf(bytes, piece), { key: new MasterKey(OLD), wrapped: undefined }));
  const unseal = (sealed: Uint8Array, piece: number): Promise<Buffer> =>
    collect(unsealStream(piecesOf(sealed, piece), { ring: parseKeyRing({ key: OLD }), required: true }));

  it.each([0, 1, 65_535, 65_536, 65_537, 131_072, 200_000])(
    "can have %i bytes, in pieces of any size",
    async (size) => {
      const bytes = noise(5, size);
      for (const piece of [997, 65_536, size || 1]) {
        expect((await unseal(await seal(bytes, piece), piece)).equals(bytes)).toBe(true);
      }
    },
  );

  it("is DAMAGED without its end, with a first line or a chunk that was changed, and with its chunks in another order", async () => {
    for (const size of [200_000, 3 * 65_536]) {
      const sealed = await seal(noise(5, size), size);
      const { line, chunks } = partsOf(sealed);
      const text = line.toString();
      const changed = [
        ...chunks.map((_, count) => Buffer.concat([line, ...chunks.slice(0, count)])),
        sealed.subarray(0, -1),
        Buffer.concat([Buffer.from(text.replace("}", ',"note":1}')), ...chunks]),
        Buffer.concat([Buffer.from(text.replace('"format":1', '"format":1.0')), ...chunks]),
        Buffer.concat([line, ...chunks.slice(1)]),
        Buffer.concat([line, ...chunks.slice(-1)]),
        Buffer.concat([line, ...[...chunks].reverse()]),
        Buffer.concat([line, ...chunks, ...chunks]),
        Buffer.concat([line, ...chunks, ...chunks.slice(-1)]),
        Buffer.concat([sealed, Buffer.from([0])]),
      ];
      const codes = await Promise.all(changed.map((bytes) => codeOf(unseal(bytes, 10_000))));
      expect(codes).toEqual(changed.map(() => "DAMAGED"));
    }
  });
});

describe("a backup of an encrypted store", () => {
  it("is sealed, verified after it was written, and remembered", async () => {
    const to = join(folder, "backups");
    const { sp } = await withAttachment();
    const seen: string[][] = [];
    const backup = await sp.backup({ to, onProgress: () => seen.push(onDisk(to, CANARY)) });
    expect(new Set(seen.flat())).toEqual(new Set());
    expect(readFileSync(backup.path).length).toBe(backup.bytes);
    expect(onDisk(to, CANARY)).toEqual([]);
    expect(await sp.verify({ bundle: backup.path })).toMatchObject({ ok: true, sessions: 2, blobs: 2 });
    expect((await sp.backups.known()).map(({ path }) => path)).toEqual([backup.path]);
    expect((await sp.erase({ session: "one" })).backups.map(({ path }) => path)).toEqual([backup.path]);
    const damaged = readFileSync(backup.path);
    damaged[70_000] = (damaged[70_000] as number) ^ 1;
    writeFileSync(backup.path, damaged);
    expect((await sp.verify({ bundle: backup.path })).problems).toMatchObject([{ kind: "bundle" }]);
  });

  it("repairs lost attachments, items and records, also of a store with other data keys than an import", async () => {
    const { sp, store } = await withAttachment();
    const expected = await Promise.all(["one", "two"].map((id) => sp.session(id).latest()));
    const { path } = await sp.backup({ to: join(folder, "repair") });
    await loseEverything(store);
    const reopened = await Savepoint.open(store, { encryption: { key: OLD }, on: { damage: () => {} } });
    expect((await reopened.verify({ deep: true })).ok).toBe(false);
    const report = await reopened.repair({ from: path });
    expect(report).toMatchObject({ ok: true, holes: [] });
    const repaired = await Promise.all(["one", "two"].map((id) => reopened.session(id).latest()));
    expect(isDeepStrictEqual(repaired, expected)).toBe(true);
  });

  it("that is older than a change of keys needs the old key; without it, a repair uses the others", async () => {
    const { sp, store } = await withAttachment();
    const to = join(folder, "rotated");
    const older = await sp.backup({ to });
    const both = await open(store, { current: "new", keys: { new: NEW, old: OLD } });
    await both.rekey();
    expect(await both.verify({ bundle: older.path })).toMatchObject({ ok: true });
    const failures: string[] = [];
    const quiet = { damage: () => {}, backgroundFailure: ({ message }: { message: string }) => failures.push(message) };
    const sole = await Savepoint.open(store, { encryption: { key: NEW }, on: quiet });
    expect(await codeOf(sole.verify({ bundle: older.path }))).toBe("WRONG_KEY");
    expect(await codeOf(sole.repair({ from: older.path }))).toBe("WRONG_KEY");
    await sole.backup({ to });
    await loseEverything(store);
    const repaired = await Savepoint.open(store, { encryption: { key: NEW }, on: quiet });
    expect(await repaired.repair({ from: to })).toMatchObject({ ok: true });
    expect(failures).toEqual(["a backup was not used for the repair: its key is missing"]);
  });
});

describe("an import of a sealed bundle", () => {
  const itOnLinux = requireOrSkip(platform() === "linux", "reads the open files of this process in /proc");

  itOnLinux("has no plain byte on disk while it is in progress, and afterwards", async () => {
    const source = await open(memory(), { key: OLD });
    const pages = Array.from(
      { length: 300 },
      (_, n) => `${CANARY} ${Buffer.from(noise(2 * n, 45_000)).toString("base64")}`,
    );
    await source.session("large").save({ pages });
    const bundle = await source.export().bytes();
    const stores = join(folder, "importing");
    const url = `sqlite:${join(stores, "store.db")}`;
    const target = await Savepoint.open(url, { encryption: { key: NEW }, durability: "process" });
    let spooled = 0;
    async function* paused(): AsyncGenerator<Uint8Array> {
      yield bundle.subarray(0, -10);
      // Everything but the end was read: the lines of the section are in a temporary file.
      for (const file of openTemporaryFiles()) {
        spooled += file.length;
        expect(file.includes("canary")).toBe(false);
      }
      expect(onDisk(stores, "canary")).toEqual([]);
      yield bundle.subarray(-10);
    }
    await target.import(paused(), { encryption: { key: OLD } });
    expect(spooled).toBeGreaterThan(16_000_000);
    expect(onDisk(stores, "canary")).toEqual([]);
    expect(await isSame(target, source, "large")).toBe(true);
    await target.close();
  });
});

/** The contents of the temporary files of imports, which have no names any more. */
function openTemporaryFiles(): Buffer[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const link = `/proc/self/fd/${fd}`;
      return readlinkSync(link).includes("savepoint-import-") ? [readFileSync(link)] : [];
    } catch {
      // The descriptor of the folder itself is closed by now.
      return [];
    }
  });
}

/** Loses all attachments, items and checkpoints. */
async function loseEverything(store: Store): Promise<void> {
  await loseBlobs(store);
  for (const tape of await store.tapes(EVERYTHING)) {
    await store.retain(tape, [], { below: Number.MAX_SAFE_INTEGER });
  }
  for (const record of await store.list({ from: "z", to: "{" }, { limit: 100 })) {
    if ("value" in record) await store.commit({ puts: [{ key: record.key, value: "lost" }] });
  }
}

async function loseBlobs(store: Store): Promise<void> {
  const blobs = await store.blobs({ after: "", limit: 100 });
  expect(blobs.length).toBeGreaterThan(0);
  await store.dropBlobs(blobs, { unusedSince: (await store.now()) + FUTURE });
}
