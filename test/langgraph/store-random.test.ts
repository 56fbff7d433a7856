// Random operations on a SavepointStore, by two processes, compared with LangGraph's InMemoryStore after each of them.
//
// Left out, because InMemoryStore is wrong or different there:
// - It compares the prefixes of searches as strings, so `["user"]` finds `["users2"]`, and joins labels with `:`, so `["a:b"]` is
//   `["a", "b"]`. The labels here are no prefixes of one another, and have no `:`.
// - It keeps listing namespaces without items. The expected list has only those with items.
// - It executes all reads of a batch before its puts. It gets the operations of a batch one by one.
// - It returns the objects that it stores. It gets copies, and its results are copied.
// - It keeps the vectors of deleted and replaced items. They are removed from it.
// - It repeats items without vectors on every page of a search by meaning. The expected page is cut from the whole result.
import { InMemoryStore, type Operation, type SearchItem } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Savepoint } from "../../src/index.js";
import { SavepointStore, type StoreIndexOptions } from "../../src/integrations/langgraph/index.js";
import { runs } from "../support/runs.js";
import { DURABLE_STORES, useStore } from "./durable-stores.js";

const LABELS = ["users", "ada", "bob", "ü/%", "*x", "\ud800"];
const KEYS = ["food", "travel", "__proto__", "a/b~c", ""];

const label = fc.constantFrom(...LABELS);
const namespace = fc.array(label, { minLength: 1, maxLength: 3 });
const key = fc.constantFrom(...KEYS);
const scalar = fc.constantFrom<unknown>(0, 1, 2, 3.5, -1, "1", "b", "abc", true, null, "");
const value = fc.record(
  {
    text: fc.constantFrom("aaa", "aab", "zzz", "", "Mixed words, twice", "b"),
    score: scalar,
    tags: fc.array(fc.constantFrom("x", "yy"), { maxLength: 3 }),
    author: fc.record({ name: fc.constantFrom("ada", "bob"), age: scalar }),
    ["__proto__"]: scalar,
  },
  { requiredKeys: [] },
);
const condition = fc.oneof(
  scalar,
  fc.dictionary(fc.constantFrom("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"), scalar, { maxKeys: 2 }),
  fc.record({ $in: fc.array(scalar, { maxLength: 3 }) }),
  fc.record({ $nin: fc.oneof(fc.array(scalar, { maxLength: 3 }), scalar) }),
  fc.record({ other: scalar }),
);
const filter = fc.dictionary(fc.constantFrom("score", "text", "missing", "tags"), condition, { maxKeys: 2 });
const count = fc.integer({ min: 0, max: 4 });
const fields = fc.constantFrom(
  "text",
  "tags[*]",
  "tags[-1]",
  "author.name",
  "author.*",
  "{text, author.name}",
  "$",
  "x[0]",
);
const path = fc.array(fc.oneof(label, fc.constant("*")), { minLength: 1, maxLength: 3 });

const put = fc.record(
  { namespace, key, value, index: fc.oneof(fc.constant(false as const), fc.array(fields, { maxLength: 2 })) },
  { requiredKeys: ["namespace", "key", "value"] },
);
const remove = fc.record({ namespace, key, value: fc.constant(null) });
const get = fc.record({ namespace, key });
const search = fc.record(
  {
    namespacePrefix: fc.array(label, { maxLength: 2 }),
    filter,
    limit: count,
    offset: count,
    query: fc.constantFrom("", "aa", "zebra", "b"),
  },
  { requiredKeys: ["namespacePrefix"] },
);
const list = fc.record(
  {
    matchConditions: fc.array(
      fc.record({ matchType: fc.constantFrom("prefix" as const, "suffix" as const), path: path }),
      { maxLength: 2 },
    ),
    maxDepth: fc.integer({ min: 1, max: 3 }),
    limit: count,
    offset: count,
  },
  { requiredKeys: ["matchConditions", "limit", "offset"] },
);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 4, arbitrary: put },
  { weight: 1, arbitrary: remove },
  { weight: 2, arbitrary: get },
  { weight: 3, arbitrary: search },
  { weight: 2, arbitrary: list },
);
const step = fc.record({
  operations: fc.array(operation, { minLength: 1, maxLength: 6 }),
  process: fc.constantFrom(0, 1),
  isNew: fc.constantFrom(false, false, false, true),
});

/** How often each letter occurs: exact in 32-bit floats. */
function lettersOf(text: string): number[] {
  const vector = Array.from({ length: 26 }, () => 0);
  for (const letter of text.toLowerCase()) {
    const index = letter.charCodeAt(0) - 97;
    if (index >= 0 && index < 26) vector[index] = (vector[index] as number) + 1;
  }
  return vector;
}
const embeddings: StoreIndexOptions["embeddings"] = {
  embedQuery: async (text) => lettersOf(text),
  embedDocuments: async (texts) => texts.map(lettersOf),
};

/** LangGraph's store without the quirks above. */
class Model {
  readonly #store: InMemoryStore;

  constructor(index: StoreIndexOptions | undefined) {
    this.#store = new InMemoryStore(index && { index: index as never });
  }

  async answer(operations: readonly Operation[]): Promise<unknown[]> {
    const results: unknown[] = [];
    for (const each of operations) results.push(structuredClone(await this.#answer(structuredClone(each))));
    return results;
  }

  async #answer(each: Operation): Promise<unknown> {
    const one = async (single: Operation): Promise<unknown> => (await this.#store.batch([single]))[0];
    const inside = this.#store as unknown as Internals;
    if ("value" in each) {
      const name = each.namespace.join(":");
      inside.vectors.get(name)?.delete(each.key);
      // Deleting what does not exist would create the namespace.
      if (each.value !== null || inside.data.get(name)?.has(each.key)) await one(each);
      return undefined;
    }
    if ("namespacePrefix" in each) {
      const all = (await one({ ...each, offset: 0, limit: 1e6 })) as SearchItem[];
      return all.slice(each.offset ?? 0, (each.offset ?? 0) + (each.limit ?? 10));
    }
    if ("key" in each) return one(each);
    const { data } = inside;
    inside.data = new Map([...data].filter(([, items]) => items.size > 0));
    const listed = await one(each);
    inside.data = data;
    return listed;
  }
}

/** The fields of an InMemoryStore, by namespace and by key. */
interface Internals {
  data: Map<string, Map<string, unknown>>;
  readonly vectors: Map<string, Map<string, unknown>>;
}

/** What both stores must agree on. Their clocks differ. */
function plain(results: readonly unknown[]): unknown {
  const withoutTimes = (item: unknown): unknown => {
    if (typeof item !== "object" || item === null || Array.isArray(item)) return item;
    const { namespace: at, key: name, value: content, score } = item as SearchItem;
    return { at, name, content: JSON.stringify(content), score: score ?? "none" };
  };
  return results.map((result) => (Array.isArray(result) ? result.map(withoutTimes) : (withoutTimes(result) ?? null)));
}

describe.each(DURABLE_STORES)("SavepointStore on $name", (kind) => {
  const lab = useStore(kind);

  it.each([
    ["without embeddings", undefined],
    ["with embeddings", { dims: 26, embeddings, fields: ["text", "tags[*]"] }],
    ["with embeddings of whole values", { dims: 26, embeddings }],
  ])("answers like LangGraph's InMemoryStore, whatever two processes do, %s", async (_title, index) => {
    const processes = [await lab.open(), await lab.open()] as const;
    const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 15 }), async (steps) => {
      for await (const { id } of processes[0].sessions.list()) await processes[0].sessions.delete(id);
      let time = 1e12;
      const options = { now: () => time++, ...(index && { index }) };
      const create = (sp: Savepoint): SavepointStore => new SavepointStore(sp, options);
      const stores = processes.map(create);
      const model = new Model(index);
      for (const { operations, process, isNew } of steps) {
        if (isNew) stores[process] = create(processes[process] as Savepoint);
        const results = await (stores[process] as SavepointStore).batch(structuredClone(operations));
        expect(plain(results)).toEqual(plain(await model.answer(operations)));
      }
      for (const store of stores) {
        const everything: Operation = { namespacePrefix: [], limit: 1e6 };
        expect(plain(await store.batch([everything]))).toEqual(plain(await model.answer([everything])));
      }
    });
    await fc.assert(property, { numRuns: runs(50, 10) });
  });
});
