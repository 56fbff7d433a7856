/** Compressed bytes that an attacker made, with fitting checksums: they never take more memory than their size allows. */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deflateRawSync, gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type ChunkRow,
  packChecksummed,
  unpackChunk,
  unpackItem,
  unpackRefs,
} from "../../src/store/chunks/chunk-codec.js";
import { readBlob } from "../../src/store/chunks/compression.js";
import { encodeLine } from "../../src/store/file/lines.js";
import { checksum } from "../../src/store/shared/index.js";
import { openStore, type Store } from "../../src/store.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const DEFLATE = 1;
const ZSTD = 2;
const BOMB = 64 << 20;
const zeros = new Uint8Array(BOMB);
const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Compared as a boolean: a failed test would print everything that was read. */
const isUnreadable = (read: object): boolean => "unreadable" in read;

/** A zstd frame of zeros. Its blocks are four bytes long and stand for 128 kB each. */
function zstdZeros(length: number, stated?: number): Uint8Array {
  const head = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, stated === undefined ? 0 : 0x80, 0x38]);
  const size = Buffer.alloc(stated === undefined ? 0 : 4);
  if (stated !== undefined) size.writeUInt32LE(stated);
  const blocks: Buffer[] = [];
  for (let left = length; left > 0;) {
    const count = Math.min(left, 1 << 17);
    left -= count;
    const block = Buffer.alloc(4);
    block.writeUInt32LE((count << 3) | (1 << 1) | (left === 0 ? 1 : 0));
    blocks.push(block);
  }
  return Buffer.concat([head, size, ...blocks]);
}

/** A chunk of two items that states these lengths and has this body. */
function chunkOf(lengths: readonly [number, number], codec: number, body: Uint8Array): ChunkRow {
  // Only the length of the JSON gets into the head.
  const frames = lengths.map((length) => ({ json: { length } as unknown as string, refs: "", sum: 0 }));
  return packChecksummed("t", 0, frames, { codec, body });
}

describe("a blob", () => {
  const bombs: Record<string, [codec: number, body: Uint8Array]> = {
    "deflated zeros": [DEFLATE, deflateRawSync(zeros)],
    "a zstd frame that states its size": [ZSTD, zstdZeros(BOMB, BOMB)],
    "a zstd frame that does not state its size": [ZSTD, zstdZeros(BOMB)],
    "a zstd frame that states a smaller size": [ZSTD, zstdZeros(BOMB, 1000)],
    "two zstd frames": [ZSTD, Buffer.concat([zstdZeros(1 << 16, 1 << 16), zstdZeros(BOMB, BOMB)])],
  };
  for (const [what, [codec, body]] of Object.entries(bombs)) {
    it(`that would be thousands of times as large decompressed is damaged: ${what}`, () => {
      expect(isUnreadable(readBlob(hashOf(zeros), { codec, body }))).toBe(true);
    });
  }

  it("in a zstd frame that states its size is read", () => {
    const bytes = zeros.subarray(0, 300_000);
    const read = readBlob(hashOf(bytes), { codec: ZSTD, body: zstdZeros(bytes.length, bytes.length) });
    expect(Buffer.compare(read as Uint8Array, bytes)).toBe(0);
  });
});

describe("a chunk", () => {
  it("is damaged if its body is larger than the lengths in its head", () => {
    for (const [codec, body] of [
      [DEFLATE, deflateRawSync(zeros.subarray(0, 500_000))],
      [ZSTD, zstdZeros(500_000, 500_000)],
      [ZSTD, zstdZeros(500_000)],
    ] as const) {
      expect(isUnreadable(unpackChunk(chunkOf([50, 50], codec, body)))).toBe(true);
    }
  });

  it("is damaged if its head states a length that no writer would have compressed so much", () => {
    const body = zstdZeros(BOMB, BOMB);
    expect(isUnreadable(unpackChunk(chunkOf([BOMB / 2, BOMB / 2], ZSTD, body)))).toBe(true);
    const deflated = deflateRawSync(zeros);
    expect(isUnreadable(unpackChunk(chunkOf([BOMB / 2, BOMB / 2], DEFLATE, deflated)))).toBe(true);
  });

  it("is damaged if its body is shorter than the lengths in its head", () => {
    const body = deflateRawSync(Buffer.from(`"${"a".repeat(98)}"`));
    expect(isUnreadable(unpackChunk(chunkOf([50, 5_000], DEFLATE, body)))).toBe(true);
    expect(isUnreadable(unpackChunk(chunkOf([50, 5_000], 0, Buffer.from("1".repeat(100)))))).toBe(true);
  });

  it("is damaged, and does not hang its reader, if its head ends before its last item", () => {
    const { head, body } = chunkOf([50, 50], 0, Buffer.from("1".repeat(100)));
    for (const count of [3, 1_000_000, 2 ** 40]) {
      const row = { tape: "t", first: 0, count, codec: 0, head, body, sum: checksum("t", 0, count, 0, head) };
      expect(isUnreadable(unpackChunk(row))).toBe(true);
      expect(isUnreadable(unpackRefs(row))).toBe(true);
      expect(unpackItem(row, 2)).toBeUndefined();
    }
  });
});

describe("a store", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await makeFolder();
  });
  afterEach(() => removeFolder(folder));

  const stores = { file: () => `file:${join(folder, "s")}`, sqlite: () => `sqlite:${join(folder, "s.db")}` };
  for (const [name, url] of Object.entries(stores)) {
    it(`reads back large bytes that compress extremely well: ${name}`, async () => {
      const bytes = zeros.subarray(0, 9 << 20);
      const hash = hashOf(bytes);
      let store: Store = await openStore(url());
      await store.commit({ blobs: [{ hash, bytes }] });
      await store.close();
      store = await openStore(url());
      expect(Buffer.compare((await store.blob(hash)) as Uint8Array, bytes)).toBe(0);
      await store.close();
    });
  }

  it("of files reads a blob as damaged that would be a thousand times as large decompressed", async () => {
    const hash = hashOf(zeros);
    const path = join(folder, "s");
    await (await openStore(`file:${path}`)).close();
    const head = { blob: hash, used: 1, bytes: 1, at: 1 };
    const header = encodeLine({ savepoint: 2, file: "records", generation: 1 });
    await writeFile(join(path, "records.jsonl"), header + encodeLine(head) + encodeLine({ commit: 1, holds: [head] }));
    await mkdir(join(path, "blobs", hash.slice(0, 2)), { recursive: true });
    await writeFile(join(path, "blobs", hash.slice(0, 2), `${hash}.gz`), gzipSync(zeros));
    const store = await openStore(`file:${path}`);
    expect(await store.blobs({ after: "", limit: 10 })).toEqual([hash]);
    expect(isUnreadable(await store.blob(hash))).toBe(true);
    await store.close();
  });
});
