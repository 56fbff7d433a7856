/** Blobs: bytes that are stored once, under their hash, for as long as commits use them. */
import assert from "node:assert/strict";
import type { Store } from "../../store/index.js";
import { assertSame, assertUnreadable, rejectsWithConflict, isUnreadable } from "../assertions.js";
import { blobOf, bytesOf, sha256 } from "../samples.js";
import type { Suite } from "../suite.js";
import { laterThan } from "./until.js";

const LONG_AGO = 0;
const AN_HOUR = 3_600_000;

export function blobSpec(suite: Suite): void {
  suite.describe("blobs", () => {
    suite.test("blobs are read back by their hash", async ({ store }) => {
      const everyByte = Uint8Array.from({ length: 256 }, (_, n) => n);
      const all = [new Uint8Array(0), Uint8Array.of(0), everyByte, bytesOf(3_000_000)];
      await store.commit({ blobs: all.map((bytes) => ({ hash: sha256(bytes), bytes })) });
      for (const bytes of all) assertSame(await bytesIn(store, sha256(bytes)), Buffer.from(bytes), "The blob");
    });

    suite.test("a missing blob is unreadable", async ({ store }) => {
      assertUnreadable(await store.blob(sha256(bytesOf(3))));
    });

    suite.test("equal bytes are stored once", async ({ store }) => {
      const bytes = bytesOf(100_000);
      const hash = sha256(bytes);
      const blob = { hash, bytes };
      await store.commit({ blobs: [blob, blob] });
      for (let n = 0; n < 20; n++) await store.commit({ blobs: [blob] });
      await store.compact();
      assert.deepEqual(await store.blobs({ after: "", limit: 10 }), [hash]);
      const size = await store.bytes();
      assert.ok(
        size < 1_000_000,
        `Expected 22 equal blobs of 100,000 bytes to be stored once, got a size of ${size} bytes.`,
      );
    });

    suite.test(
      "changing the bytes of a blob after a commit or a read does not change the stored blob",
      async ({ store }) => {
        const { hash, bytes } = blobOf("mine");
        await store.commit({ blobs: [{ hash, bytes }] });
        bytes.fill(0);
        (await bytesIn(store, hash)).fill(0);
        assert.equal((await bytesIn(store, hash)).toString(), "mine");
      },
    );

    suite.test("using a missing blob conflicts; using a stored blob does not", async ({ store }) => {
      const { hash, bytes } = blobOf("a");
      await rejectsWithConflict(hash, store, { blobs: [{ hash }], puts: [{ key: "k", value: "1" }] });
      assert.deepEqual(await store.get(["k"]), [undefined]);
      await store.commit({ blobs: [{ hash, bytes }] });
      await store.commit({ blobs: [{ hash }], puts: [{ key: "k", value: "1" }] });
      assert.equal((await bytesIn(store, hash)).toString(), "a");
    });

    suite.test("blob hashes are listed in order, page by page", async ({ store }) => {
      const blobs = Array.from({ length: 25 }, (_, n) => blobOf(`blob ${n}`));
      await store.commit({ blobs });
      const found: string[] = [];
      for (let after = ""; ; after = found.at(-1) as string) {
        const page = await store.blobs({ after, limit: 10 });
        found.push(...page);
        if (page.length < 10) break;
      }
      assert.deepEqual(found, blobs.map(({ hash }) => hash).sort());
    });

    suite.test("dropBlobs() frees only blobs that are unused since the given time", async ({ store }) => {
      const blobs = [blobOf("a"), blobOf("b")];
      const hashes = blobs.map(({ hash }) => hash);
      await store.commit({ blobs });
      const before = (await store.now()) - AN_HOUR;
      assert.deepEqual(await store.dropBlobs(hashes, { unusedSince: before }), { items: 0, bytes: 0 });
      assert.equal((await bytesIn(store, hashes[0] as string)).toString(), "a");
      const unusedSince = before + 2 * AN_HOUR;
      const freed = await store.dropBlobs([hashes[0] as string, sha256(bytesOf(9))], { unusedSince });
      assert.equal(freed.items, 1);
      assert.ok(freed.bytes > 0);
      assertUnreadable(await store.blob(hashes[0] as string));
      assert.deepEqual(await store.blobs({ after: "", limit: 10 }), [hashes[1]]);
    });

    suite.test("a commit that uses a blob renews its last use, with or without the bytes", async ({ store }) => {
      const [idle, touched, again] = [blobOf("idle"), blobOf("touched"), blobOf("again")];
      await store.commit({ blobs: [idle, touched, again] });
      const since = await laterThan(store, 0);
      await store.commit({ blobs: [{ hash: touched.hash }, again] });
      const freed = await store.dropBlobs([idle.hash, touched.hash, again.hash], { unusedSince: since });
      assert.equal(freed.items, 1);
      assert.deepEqual(await store.blobs({ after: "", limit: 10 }), [touched.hash, again.hash].sort());
    });

    suite.test("a commit that conflicts neither stores nor uses blobs", async ({ store }) => {
      const idle = blobOf("idle");
      await store.commit({ blobs: [idle] });
      const since = await laterThan(store, 0);
      await rejectsWithConflict("k", store, {
        checks: [{ key: "k", exists: true }],
        blobs: [{ hash: idle.hash }, blobOf("new")],
      });
      assert.deepEqual(await store.blobs({ after: "", limit: 10 }), [idle.hash]);
      await store.dropBlobs([idle.hash], { unusedSince: since });
      assert.deepEqual(await store.blobs({ after: "", limit: 10 }), []);
    });

    suite.test("a freed blob can be stored again", async ({ store }) => {
      const blob = blobOf("a");
      await store.commit({ blobs: [blob] });
      await store.dropBlobs([blob.hash], { unusedSince: (await store.now()) + AN_HOUR });
      await store.commit({ blobs: [blob] });
      assert.equal((await bytesIn(store, blob.hash)).toString(), "a");
      assert.deepEqual(await store.dropBlobs([blob.hash], { unusedSince: LONG_AGO }), { items: 0, bytes: 0 });
    });
  });
}

async function bytesIn(store: Store, hash: string): Promise<Buffer> {
  const bytes = await store.blob(hash);
  if (isUnreadable(bytes)) assert.fail(bytes.unreadable);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
