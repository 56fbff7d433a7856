/** Tests of the kit itself: it must fail for a store that breaks a promise. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { type ConformanceOptions, storeConformance, type StoreHarness, type TestRunner } from "savepoint/testing";
import { openMemoryStore, openSqliteStore, type Store } from "../../src/store.js";
import { openScanTextIndex } from "../../src/store/shared/scan-text-index.js";
import type { TextIndex } from "../../src/store/contract/text-index.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

interface Test {
  readonly group: string;
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** The tests that the kit defines. */
function testsOf(harness: StoreHarness, options?: ConformanceOptions): Test[] {
  const tests: Test[] = [];
  let group = "";
  const runner: TestRunner = {
    describe(name, body) {
      group = name;
      body();
    },
    it: (name, run) => tests.push({ group, name, run }),
  };
  storeConformance(harness, runner, options);
  return tests;
}

/** The first failure among the tests of a group. */
async function firstFailure(tests: readonly Test[], group: string): Promise<unknown> {
  for (const { run } of tests.filter((test) => test.group === group)) {
    try {
      await run();
    } catch (error) {
      return error;
    }
  }
  return undefined;
}

type Fault = (store: Store) => Partial<Store>;

/** An index with a fault. */
function textFault(store: Store, fault: (texts: TextIndex) => Partial<TextIndex>): Partial<Store> {
  const texts = openScanTextIndex(store);
  return { texts: withFault(texts, fault(texts)) };
}

/** Stores in memory with a fault. */
function harnessOf(fault: Fault): StoreHarness {
  return {
    async setup() {
      const store = openMemoryStore();
      return { store: withFault(store, fault(store)), teardown: async () => {} };
    },
  };
}

/** An object with some members replaced. */
function withFault<T extends object>(intact: T, broken: Partial<T>): T {
  return new Proxy(intact, {
    get(target, name) {
      const member: unknown = Reflect.get(name in broken ? broken : target, name);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}

describe("the conformance kit", () => {
  const faults: Record<string, [group: string, fault: Fault]> = {
    "sorts keys by UTF-16": [
      "records",
      (store) => ({
        list: async (range, options) =>
          (await store.list(range, { ...options, limit: 1_000 }))
            .sort((a, b) => (a.key < b.key ? -1 : 1) * (options.reverse ? -1 : 1))
            .slice(0, options.limit),
      }),
    ],
    "confuses upper and lower case": [
      "records",
      (store) => ({ get: (keys) => store.get(keys.map((key) => key.toLowerCase())) }),
    ],
    "drops missing records": [
      "records",
      (store) => ({ get: async (keys) => (await store.get(keys)).filter((record) => record !== undefined) }),
    ],
    "drops missing items": [
      "items",
      (store) => ({ items: async (spans) => (await store.items(spans)).filter((item) => "json" in item) }),
    ],
    "does not report item numbers in use": [
      "items",
      (store) => ({ commit: (commit) => store.commit(commit).catch(() => ({ firsts: [] })) }),
    ],
    "numbers every append from 0": [
      "numbered appends",
      (store) => ({ commit: (commit) => store.commit({ ...commit, deletes: ["next"] }) }),
    ],
    "lists items without refs": [
      "refs of items",
      () => ({
        itemRefs: async ({ start, count }) => Array.from({ length: count }, (_, n) => ({ item: start + n, refs: "" })),
      }),
    ],
    "frees blobs in use": [
      "blobs",
      (store) => ({ dropBlobs: (hashes) => store.dropBlobs(hashes, { unusedSince: Infinity }) }),
    ],
    "does not renew the last use of a blob": [
      "blobs",
      (store) => ({
        commit: async (commit) => {
          const known = new Set(await store.blobs({ after: "", limit: 1_000 }));
          return store.commit({ ...commit, blobs: (commit.blobs ?? []).filter(({ hash }) => !known.has(hash)) });
        },
      }),
    ],
    "ignores checks": ["conflicts", (store) => ({ commit: (commit) => store.commit({ ...commit, checks: [] }) })],
    "ignores notBefore": ["conflicts", (store) => ({ commit: (commit) => store.commit({ ...commit, notBefore: 0 }) })],
    "does not report a conflict": [
      "conflicts",
      (store) => ({ commit: (commit) => store.commit(commit).catch(() => ({ firsts: [] })) }),
    ],
    "writes a part of a rejected commit": [
      "atomicity",
      (store) => ({
        commit: async (commit) => {
          await store.commit({ checks: commit.checks ?? [], blobs: (commit.blobs ?? []).filter(({ bytes }) => bytes) });
          return store.commit(commit);
        },
      }),
    ],
    "changes the order of commits": [
      "order",
      (store) => {
        let called = 0;
        return {
          commit: async (commit) => {
            if (called++ % 2) await new Promise((resolve) => setImmediate(resolve));
            return store.commit(commit);
          },
        };
      },
    ],
    "reads several keys without a snapshot": [
      "concurrency",
      (store) => ({
        get: async (keys) => {
          const found = [];
          for (const key of keys) {
            found.push(...(await store.get([key])));
            await new Promise((resolve) => setImmediate(resolve));
          }
          return found;
        },
        commit: async (commit) => {
          await new Promise((resolve) => setImmediate(resolve));
          return store.commit(commit);
        },
      }),
    ],
    "frees live items": ["retain", (store) => ({ retain: (tape, _, options) => store.retain(tape, [], options) })],
    "frees items at or above `below`": [
      "retain",
      (store) => ({ retain: (tape, live, options) => store.retain(tape, live, { ...options, below: Infinity }) }),
    ],
    "loses a record during compaction": [
      "compact",
      (store) => ({ compact: async () => void (await store.commit({ deletes: ["k/7"] })) }),
    ],
    "returns its total size for every range": ["size of ranges", (store) => ({ bytesOf: () => store.bytes() })],
    "does not report deleted records as changes": [
      "changes of records",
      (store) =>
        textFault(store, (texts) => ({
          changes: async (ranges, limit) => (await texts.changes(ranges, limit)).filter(({ sum }) => sum !== undefined),
        })),
    ],
    "updates sources without checking their previous version": [
      "text index",
      (store) =>
        textFault(store, (texts) => ({
          async update({ sources, marks }) {
            const before = await texts.sources(sources.map(({ name }) => name));
            const forced = sources.map((source, index) => ({ ...source, before: before[index] }));
            return texts.update({ sources: forced, marks });
          },
        })),
    ],
    "finds only strings that begin with a word character": [
      "text index",
      (store) =>
        textFault(store, (texts) => ({
          find: async (text, options) => (/^\w/u.test(text) ? texts.find(text, options) : []),
        })),
    ],
    "stays open after close()": ["close", () => ({ close: async () => {} })],
    "claims to be durable": ["capabilities", () => ({ capabilities: { durable: true, shared: false } })],
    "claims to be durable without a harness for damage": [
      "damage",
      () => ({ capabilities: { durable: true, shared: false } }),
    ],
    "claims to be durable without a harness for crashes": [
      "kill -9",
      () => ({ capabilities: { durable: true, shared: false } }),
    ],
    "drops some of many commits": [
      "backpressure",
      (store) => {
        let called = 0;
        return { commit: async (commit) => (++called % 5_000 ? store.commit(commit) : { firsts: [] }) };
      },
    ],
    "ignores ifAbsent": [
      "random operations",
      (store) => ({
        commit: ({ puts = [], ...commit }) =>
          store.commit({ ...commit, puts: puts.map((put) => ({ ...put, ifAbsent: false })) }),
      }),
    ],
  };
  for (const [what, [group, fault]] of Object.entries(faults)) {
    it(`fails a store that ${what}`, async () => {
      expect(await firstFailure(testsOf(harnessOf(fault)), group)).toBeInstanceOf(Error);
    });
  }

  it("runs in the test runner of Node", async () => {
    const file = fileURLToPath(new URL("./node-runner.mjs", import.meta.url));
    // Vitest is not inherited: a runner inside a runner reports to the outer one.
    const { NODE_TEST_CONTEXT: _, NODE_OPTIONS: __, ...env } = process.env;
    const { stdout } = await promisify(execFile)(process.execPath, ["--test", "--test-reporter=tap", file], { env });
    expect(stdout).toMatch(/^# pass [1-9]\d\d*$/m);
    expect(stdout).toMatch(/^# fail 0$/m);
  });

  it("reports the seed of a failure, which reproduces it", async () => {
    const fault: Fault = (store) => ({ blob: (hash) => store.blob(hash.replace("0", "1")) });
    const failure = await firstFailure(testsOf(harnessOf(fault)), "random operations");
    const seed = Number(/seed (\d+)/.exec((failure as Error).message)?.[1]);
    const again = await firstFailure(testsOf(harnessOf(fault), { seed }), "random operations");
    expect((again as Error).message).toBe((failure as Error).message);
  });

  for (const fault of ["acknowledges-early", "splits-commits"]) {
    it(`fails a store with the fault "${fault}" after kill -9`, async () => {
      const folders: string[] = [];
      const setup: StoreHarness["setup"] = async () => {
        const folder = await makeFolder();
        folders.push(folder);
        const location = join(folder, `${fault}.db`);
        return { store: await openSqliteStore(location), location, teardown: () => removeFolder(folder) };
      };
      const crash = { module: new URL("./sqlite-crash-faulty.mjs", import.meta.url).href, points: ["commit"] };
      const tests = testsOf({ setup, reopen: (location) => openSqliteStore(location), crash });
      expect(await firstFailure(tests, "kill -9")).toMatchObject({ code: "ERR_ASSERTION" });
    });
  }
});
