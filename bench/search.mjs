// Searching conversations beside a scan with `includes` over the same messages held in memory; what the first search
// costs; and what a checkpoint of a whole agent costs beside copying its conversations.
import { join } from "node:path";
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
  const tables = await inFolder(async (folder) => {
    const url = `sqlite:${join(folder, "library.db")}`;
    const sp = await Savepoint.open(url, { durability: "process" });
    await sp.agents.save({ id: AGENT, name: "Librarian", state: { solved: 0 } });
    const ids = await fill(sp, library);
    await sp.close();
    return [
      await checkpoints(folder, url, library, ids),
      await firstSearch(folder, url, library),
      await searching(url, library, texts, queries),
    ];
  });
  report("search", tables);
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
    rows.push([name, ms(spent), bytes(stored), bytes(sizeOf(folder) - before)]);
  };
  await take("the first checkpoint", async () => {});
  await take("a second one, nothing has changed", async () => {});
  await take("a third one, 10 conversations have changed", async (sp) => {
    for (const id of ids.slice(0, 10)) await sp.conversations.append(id, [message.user("And another thing.")]);
  });
  rows.push(await inFolder((other) => copying(other, library)));
  return {
    title: `A checkpoint of an agent with ${library.length} conversations of ${library[0]?.length} messages`,
    head: ["", "time", "bytes it says", "the file grows by"],
    rows,
    notes: ["Copying: the conversations as one JSON text in one row of a table, committed with synchronous = FULL."],
  };
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
  return {
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
      theirs.push(await timed(() => scan(held, query.toLowerCase())));
    }
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
    notes: ["includes: each message, in lower case already, until one of the conversation matches; all conversations."],
  };
}

/** @param {string[][]} held @param {string} query */
function scan(held, query) {
  let hits = 0;
  for (const messages of held) if (messages.some((text) => text.includes(query))) hits++;
  return hits;
}

/** Texts that look a little like language: few words often, many words seldom, some of them in other scripts. */
class Texts {
  #seed;
  #words;

  /** @param {number} seed */
  constructor(seed) {
    this.#seed = seed;
    const syllables = [
      "ka",
      "lo",
      "mi",
      "ren",
      "sta",
      "tor",
      "ul",
      "ves",
      "qui",
      "pan",
      "der",
      "ish",
      "ol",
      "ent",
      "gra",
    ];
    this.#words = Array.from({ length: 20_000 }, (_, index) => {
      const length = 1 + Math.floor(this.random() * 4);
      const word = Array.from({ length }, () => syllables[Math.floor(this.random() * syllables.length)]).join("");
      return index % 40 === 39
        ? "検索世界保存点会話"[index % 9] + "語" + "文字列記憶"[index % 5]
        : word + index.toString(36);
    });
  }

  random() {
    this.#seed = (Math.imul(this.#seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return this.#seed / 0x7fffffff;
  }

  /** @param {number} skew */
  word(skew = 4) {
    return /** @type {string} */ (this.#words[Math.floor(this.#words.length * this.random() ** skew)]);
  }

  message() {
    const count = 8 + Math.floor(this.random() * 60);
    const words = Array.from({ length: count }, () => this.word());
    words[0] = words[0]?.toUpperCase() ?? "";
    return `${words.join(" ")}.`;
  }

  /** @param {string[][]} library @param {number} count @returns {Record<string, string[]>} */
  queries(library, count) {
    const some = (/** @type {() => string} */ make) => Array.from({ length: count }, make);
    const any = () => {
      const messages = /** @type {string[]} */ (library[Math.floor(this.random() * library.length)]);
      return /** @type {string} */ (messages[Math.floor(this.random() * messages.length)]);
    };
    const cut = (/** @type {number} */ length) => {
      const text = any();
      const at = Math.floor(this.random() * Math.max(1, text.length - length));
      return text.slice(at, at + length);
    };
    return {
      "a word, as often as it is said": some(() => this.word()),
      "a rare word": some(() => this.word(1)),
      "part of a word, 5 characters": some(() => cut(5)),
      "a phrase, 20 characters": some(() => cut(20)),
      "nothing that is there": some(() => `${this.word()}x${this.word()}`),
      "two characters": some(() => cut(2)),
      "one character": some(() => cut(1)),
    };
  }
}
