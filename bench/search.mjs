// Searching conversations beside a scan with `includes` over the same messages held in memory; what the first search
// costs; and what a checkpoint of a whole agent costs beside copying its conversations.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { message, Savepoint } from "savepoint";
import { openDatabase } from "./lib/inside.mjs";
import { inFolder, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";

const AGENT = "librarian";

/** @param {string[]} args conversations, messages of each, and queries of each kind */
export default async function search(args) {
  const [conversations = 1000, messages = 100, queries = 40] = args.map(Number);
  const texts = new Texts(7);
  const library = Array.from({ length: conversations }, () => Array.from({ length: messages }, () => texts.message()));
  const { tables, figures } = await inFolder(async (folder) => {
    const url = `sqlite:${join(folder, "library.db")}`;
    const sp = await Savepoint.open(url, { durability: "process" });
    await sp.agents.save({ id: AGENT, name: "Librarian", state: { solved: 0 } });
    const ids = await fill(sp, library);
    await sp.close();
    const agent = await checkpoints(folder, url, library, ids);
    const first = await firstSearch(folder, url, library);
    return {
      tables: [agent.table, first.table, await searching(url, library, texts, queries)],
      figures: { unchanged: agent.unchanged, afterOne: first.afterOne },
    };
  });
  report("search", tables, figures);
}

/** @param {Savepoint} sp @param {string[][]} library */
async function fill(sp, library) {
  const ids = [];
  for (const texts of library) {
    const { id } = await sp.conversations.create({ agent: AGENT });
    const messages = texts.map((text, index) => (index % 2 === 0 ? message.user(text) : message.assistant(text)));
    await sp.conversations.append(id, messages);
    ids.push(id);
  }
  return ids;
}

/** @param {string} folder @param {string} url @param {string[][]} library @param {string[]} ids */
async function checkpoints(folder, url, library, ids) {
  /** @type {(string | number)[][]} */
  const rows = [];
  /** @type {number[]} */
  const times = [];
  /** @param {string} name @param {(sp: Savepoint) => Promise<unknown>} prepare */
  const take = async (name, prepare) => {
    const sp = await Savepoint.open(url);
    await prepare(sp);
    await sp.close();
    const before = sizeOf(folder);
    const again = await Savepoint.open(url);
    let stored = 0;
    const spent = await timed(async () => {
      stored = (await again.checkpoints.create({ agent: AGENT })).storedBytes;
    });
    await again.close();
    times.push(spent);
    rows.push([name, ms(spent), bytes(stored), bytes(sizeOf(folder) - before)]);
  };
  await take("the first checkpoint", async () => {});
  await take("a second one, nothing has changed", async () => {});
  await take("a third one, 10 conversations have changed", async (sp) => {
    for (const id of ids.slice(0, 10)) await sp.conversations.append(id, [message.user("And another thing.")]);
  });
  const unchanged = times[1] ?? Number.NaN;
  rows.push(await inFolder((other) => copying(other, library)));
  const table = {
    title: `A checkpoint of an agent with ${library.length} conversations of ${library[0]?.length} messages`,
    head: ["", "time", "bytes stored", "the file grows by"],
    rows,
    notes: ["Copying: the conversations as one JSON text in one row of a table, committed with synchronous = FULL."],
  };
  return { table, unchanged };
}

/** @param {string} folder @param {string[][]} library */
async function copying(folder, library) {
  const database = await openDatabase(join(folder, "copy.db"));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE copy (body BLOB)");
  const state = library.map((texts, index) => ({
    id: index,
    messages: texts.map((content) => ({ role: "user", content })),
  }));
  let size = 0;
  const spent = await timed(() => {
    const body = Buffer.from(JSON.stringify(state));
    size = body.length;
    database.prepare("INSERT INTO copy VALUES (?)").run(body);
  });
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return ["copying them", ms(spent), bytes(size), bytes(sizeOf(folder))];
}

/** @param {string} folder @param {string} url @param {string[][]} library */
async function firstSearch(folder, url, library) {
  const characters = library.flat().reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const before = sizeOf(folder);
  const sp = await Savepoint.open(url);
  let [last, late] = [performance.now(), 0];
  const timer = setInterval(() => {
    const now = performance.now();
    late = Math.max(late, now - last - 5);
    last = now;
  }, 5);
  const first = await timed(() => sp.conversations.search("nothing like this"));
  clearInterval(timer);
  const [id] = (await sp.conversations.list({ limit: 1 }).all()).map((info) => info.id);
  await sp.conversations.append(/** @type {string} */ (id), [message.user("One more.")]);
  const next = await timed(() => sp.conversations.search("nothing like this"));
  await sp.close();
  const grown = sizeOf(folder) - before;
  const table = {
    title: `The first search in ${library.flat().length} messages`,
    head: ["", ""],
    rows: [
      ["indexing them", ms(first)],
      ["the event loop was late by at most", ms(late)],
      ["bytes of the messages' texts", bytes(characters)],
      ["bytes of the index", bytes(grown)],
      ["index vs. texts", ratio(grown / characters)],
      ["a search after one more message", ms(next)],
    ],
    notes: [],
  };
  return { table, afterOne: next };
}

/** @param {string} url @param {string[][]} library @param {Texts} texts @param {number} count */
async function searching(url, library, texts, count) {
  const sp = await Savepoint.open(url);
  const held = library.map((messages) => messages.map((text) => text.toLowerCase()));
  const kinds = texts.queries(library, count);
  for (const queries of Object.values(kinds)) await sp.conversations.search(/** @type {string} */ (queries[0]));
  /** @type {number[]} */
  const allMine = [];
  /** @type {number[]} */
  const allTheirs = [];
  const rows = [];
  for (const [kind, queries] of Object.entries(kinds)) {
    const mine = [];
    const theirs = [];
    let found = 0;
    for (const query of queries) {
      mine.push(await timed(async () => (found += (await sp.conversations.search(query, { agent: AGENT })).length)));
    }
    for (const query of queries) theirs.push(await timed(() => scan(held, query.toLowerCase())));
    allMine.push(...mine);
    allTheirs.push(...theirs);
    rows.push([
      kind,
      (found / queries.length).toFixed(1),
      ms(median(mine)),
      ms(median(theirs)),
      ratio(median(mine) / median(theirs)),
    ]);
  }
  await sp.close();
  rows.push([
    "all of them",
    "",
    ms(median(allMine)),
    ms(median(allTheirs)),
    ratio(median(allMine) / median(allTheirs)),
  ]);
  return {
    title: `Searching ${library.flat().length} messages, p50 of ${count} queries each, at most 10 hits`,
    head: ["", "hits", "search", "includes", "search vs. includes"],
    rows,
    notes: ["includes: every message, held in memory in lower case already."],
  };
}

/** The conversations with a message that has the text, and which those are. @param {string[][]} held @param {string} query */
function scan(held, query) {
  const hits = [];
  for (const [conversation, messages] of held.entries()) {
    const found = messages.filter((text) => text.includes(query));
    if (found.length > 0) hits.push({ conversation, found });
  }
  return hits;
}

/** Messages cut from what people have written: the read-me files of the packages that are installed here. */
class Texts {
  #seed;
  /** @type {string[]} */
  #words;

  /** @param {number} seed */
  constructor(seed) {
    this.#seed = seed;
    this.#words = readmes().flatMap((text) => text.split(/\s+/u).filter((word) => word.length > 0 && word.length < 30));
  }

  random() {
    this.#seed = (Math.imul(this.#seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return this.#seed / 0x7fffffff;
  }

  /** A number below `count`. @param {number} count */
  below(count) {
    return Math.floor(this.random() * count);
  }

  message() {
    const count = 8 + this.below(90);
    const start = this.below(this.#words.length - count);
    return this.#words.slice(start, start + count).join(" ");
  }

  /** @param {string[][]} library @param {number} count @returns {Record<string, string[]>} */
  queries(library, count) {
    const some = (/** @type {() => string} */ make) => Array.from({ length: count }, make);
    const any = () => {
      const messages = /** @type {string[]} */ (library[this.below(library.length)]);
      return /** @type {string} */ (messages[this.below(messages.length)]);
    };
    const cut = (/** @type {number} */ length) => {
      const text = any();
      const at = this.below(Math.max(1, text.length - length));
      return text.slice(at, at + length);
    };
    const said = () => /** @type {string} */ (this.#words[this.below(this.#words.length)]);
    const different = [...new Set(this.#words)].filter((word) => word.length > 4);
    return {
      "a word, by its frequency": some(() => {
        for (let word = said(); ; word = said()) if (word.length > 3) return word;
      }),
      "a word, each equally likely": some(() => /** @type {string} */ (different[this.below(different.length)])),
      "part of a word, 5 characters": some(() => said().padEnd(5, "e").slice(0, 5)),
      "20 characters of a message": some(() => cut(20)),
      "a text that does not occur": some(() => `${said()}x${said()}q`),
      "two characters of a message": some(() => cut(2)),
      "one character of a message": some(() => cut(1)),
    };
  }
}

/** @returns {string[]} */
function readmes() {
  const folder = fileURLToPath(new URL("../node_modules/", import.meta.url));
  const packages = readdirSync(folder).flatMap((name) =>
    name.startsWith("@") ? readdirSync(join(folder, name)).map((part) => join(name, part)) : [name],
  );
  return packages
    .sort()
    .map((name) => join(folder, name, "README.md"))
    .filter((path) => existsSync(path))
    .map((path) => readFileSync(path, "utf8"));
}
