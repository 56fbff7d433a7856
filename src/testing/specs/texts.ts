/** Text indexes: a search misses no document, and updates are atomic. */
import assert from "node:assert/strict";
import { DOCUMENTS_PER_SOURCE, type SourceUpdate } from "../../store/index.js";
import { Random } from "../random.js";
import { randomQueries, randomText } from "../random-texts.js";
import { EVERYTHING } from "../samples.js";
import type { Suite } from "../suite.js";
import {
  addSource,
  assertFound,
  findDocuments,
  replaceDocuments,
  idOf,
  recordMarks,
  onlyChange,
  type OpenTexts,
  removeSource,
  textTest,
  MAX_DOCUMENT,
} from "../text-index-helpers.js";

const ROUNDS = 4;

/** @param seed the seed of the first round of random strings; later rounds use the following numbers */
export function textSpec(suite: Suite, seed: number, open: OpenTexts): void {
  const test = textTest(suite, open);

  suite.describe("text index", () => {
    test("an empty text index has no sources and no matches", async (texts) => {
      assert.deepEqual(await texts.sources(["s"]), [undefined]);
      assert.deepEqual(await texts.sourcesById([1]), [undefined]);
      for (const text of ["", "a", "abc"]) assert.deepEqual(await findDocuments(texts, text), []);
    });

    test("sources are found by name and by id, one result per request", async (texts) => {
      await addSource(texts, "one", ["a", "b"], "first");
      await addSource(texts, "two", [], "second");
      const [one, two] = await texts.sources(["one", "two"]);
      assert.deepEqual(one, { id: one?.id, name: "one", count: 2, note: "first" });
      assert.deepEqual(two, { id: two?.id, name: "two", count: 0, note: "second" });
      assert.deepEqual(await texts.sources(["two", "none", "one", "two"]), [two, undefined, one, two]);
      const ids = [idOf(two), 1_000_000, idOf(one)];
      assert.deepEqual(await texts.sourcesById(ids), [two, undefined, one]);
    });

    test("removed sources are not found, and unknown names are ignored", async (texts) => {
      await texts.remove(["none"]);
      await addSource(texts, "one", ["abc"]);
      const two = await addSource(texts, "two", ["abc abc", "abcd"]);
      await texts.remove(["one", "none", "one"]);
      assert.deepEqual(await texts.sources(["one", "two"]), [undefined, two]);
      const first = idOf(two) * DOCUMENTS_PER_SOURCE;
      assert.deepEqual(await findDocuments(texts, "abc"), [first + 1, first]);
      await texts.remove(["two"]);
      assert.deepEqual(await findDocuments(texts, "abc"), []);
    });

    test("source ids increase and are never reused, also after clear()", async (texts) => {
      const ids: number[] = [];
      for (const name of ["a", "b", "c"]) ids.push(idOf(await addSource(texts, name, ["text"])));
      await removeSource(texts, "c");
      ids.push(idOf(await addSource(texts, "c", ["text"])));
      await texts.clear();
      ids.push(idOf(await addSource(texts, "a", ["text"])));
      for (const [index, id] of ids.entries()) assert.ok(id > (ids[index - 1] ?? -1), ids.join(" "));
    });

    test("documents are numbered from their source's id and returned highest first", async (texts) => {
      const one = idOf(await addSource(texts, "one", ["xabcx", "nothing", "abc"]));
      const two = idOf(await addSource(texts, "two", ["abc abc"]));
      assert.deepEqual(await findDocuments(texts, "abc"), [
        two * DOCUMENTS_PER_SOURCE,
        one * DOCUMENTS_PER_SOURCE + 2,
        one * DOCUMENTS_PER_SOURCE,
      ]);
    });

    test("pages of matches continue below the last number", async (texts) => {
      const documents = Array.from({ length: 25 }, (_, n) => (n % 2 ? `the needle ${n}` : `hay, only hay ${n}`));
      const id = idOf(await addSource(texts, "s", documents));
      const expected = documents
        .flatMap((text, n) => (text.includes("needle") ? [id * DOCUMENTS_PER_SOURCE + n] : []))
        .reverse();
      for (const text of ["needle", "ne", "n"]) {
        const found: number[] = [];
        for (let below = MAX_DOCUMENT; ;) {
          const page = await texts.find(text, { below, limit: 5 });
          assert.ok(page.length <= 5 && page.every((number) => number < below));
          found.push(...page);
          if (page.length < 5) break;
          below = page.at(-1) as number;
        }
        const isFound = new Set(found);
        assert.deepEqual(
          expected.filter((number) => isFound.has(number)),
          expected,
        );
        assert.deepEqual(
          found,
          [...isFound].sort((a, b) => b - a),
          "Highest first, each once.",
        );
      }
      assert.equal((await texts.find("needle", { below: id * DOCUMENTS_PER_SOURCE, limit: 5 })).length, 0);
      assert.equal((await findDocuments(texts, "")).length, documents.length);
    });

    test("documents of a source can be added, replaced and removed", async (texts) => {
      await addSource(texts, "s", ["alpha", "beta", "gamma"]);
      await addSource(texts, "other", ["alpha"]);
      await replaceDocuments(texts, "s", 3, ["delta"]);
      await assertFound(texts, { alpha: ["s/0", "other/0"], delta: ["s/3"], gamma: ["s/2"] });
      await replaceDocuments(texts, "s", 1, ["epsilon"]);
      await assertFound(texts, { alpha: ["s/0", "other/0"], beta: [], delta: [], epsilon: ["s/1"], gamma: [] });
      await replaceDocuments(texts, "s", 0, []);
      await assertFound(texts, { alpha: ["other/0"], epsilon: [] });
      await replaceDocuments(texts, "s", 0, ["alpha again"]);
      await assertFound(texts, { alpha: ["s/0", "other/0"] });
      await removeSource(texts, "s");
      await assertFound(texts, { alpha: ["other/0"] });
      assert.deepEqual(await texts.sources(["s"]), [undefined]);
    });

    test("an update of the text index is atomic", async (texts, { store }) => {
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      const before = await addSource(texts, "s", ["old"], "1");
      const update = (source: Partial<SourceUpdate>): Promise<boolean> =>
        texts.update({
          sources: [
            { name: "new", before: undefined, from: 0, texts: ["added"], note: "" },
            { name: "s", before, from: 1, texts: ["added"], note: "2", ...source },
          ],
          marks: [{ key: "k", sum: 1 }],
        });
      const change = await onlyChange(texts);
      for (const wrong of [
        { before: undefined },
        { before: { ...before, id: before.id + 1 } },
        { before: { ...before, count: 2 } },
        { before: { ...before, note: "0" } },
        { name: "missing" },
      ]) {
        assert.equal(await update(wrong), false, JSON.stringify(wrong));
        assert.deepEqual(await texts.sources(["s", "new", "missing"]), [before, undefined, undefined]);
        assert.deepEqual(await findDocuments(texts, "added"), []);
        assert.deepEqual(await onlyChange(texts), change);
      }
      assert.equal(await update({}), true);
      assert.deepEqual((await texts.sources(["s"]))[0], { ...before, count: 2, note: "2" });
      await assertFound(texts, { added: ["s/1", "new/0"], old: ["s/0"] });
    });

    test("clear() empties the text index, which can then be rebuilt", async (texts, { store }) => {
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await recordMarks(texts, [await onlyChange(texts)]);
      await addSource(texts, "s", ["some text"]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
      await texts.clear();
      assert.deepEqual(await texts.sources(["s"]), [undefined]);
      for (const text of ["", "s", "text"]) assert.deepEqual(await findDocuments(texts, text), []);
      await recordMarks(texts, [await onlyChange(texts)]);
      await addSource(texts, "s", ["some text"]);
      await assertFound(texts, { text: ["s/0"] });
      await texts.clear();
      await texts.clear();
    });

    test("the record of a removed source counts as changed until it is indexed again", async (texts, { store }) => {
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      const mark = await onlyChange(texts);
      await recordMarks(texts, [mark]);
      await addSource(texts, "k", ["some text"]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
      await texts.remove(["k"]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), [mark]);
      await recordMarks(texts, [mark]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
      await store.commit({ deletes: ["k"] });
      await texts.remove(["k"]);
      assert.deepEqual(await texts.changes([EVERYTHING], 10), []);
    });

    for (let round = 0; round < ROUNDS; round++) {
      test(`a search returns every document that contains the string (${round + 1} of ${ROUNDS})`, async (texts) => {
        const random = new Random(seed + round);
        const documents = Array.from({ length: 40 }, () => randomText(random, 60));
        const id = idOf(await addSource(texts, "s", documents.slice(0, 20)));
        await replaceDocuments(texts, "s", 20, documents.slice(20));
        for (const text of randomQueries(random, documents)) {
          const found = new Set(await findDocuments(texts, text));
          for (const [n, document] of documents.entries()) {
            const missed = document.includes(text) && !found.has(id * DOCUMENTS_PER_SOURCE + n);
            const what = `${JSON.stringify(text)} in ${JSON.stringify(document)}`;
            assert.ok(!missed, `With the seed ${random.seed}, find() misses ${what}.`);
          }
        }
      });
    }
  });
}
