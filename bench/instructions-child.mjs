// Saves so many times in a process of its own: see instructions.mjs.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { input } from "./lib/child.mjs";
import { message, messages, seeded } from "./lib/states.mjs";

const { dist, work, total, folder } =
  /** @type {{ dist: string; work: "insert" | "append" | "save"; total: number; folder: string }} */ (input());
/** A thread begins with so many messages, and another one takes its place when it has twice as many. */
const LENGTH = 100;

mkdirSync(folder);
const path = join(folder, "bench.db");
const random = seeded(1);
// Made before, so that the difference of two runs is the saves.
const added = messages(random, 5000);
await (work === "insert" ? insert() : save());

async function insert() {
  /** @type {typeof import("../scripts/internals.js")} */
  const { openDatabase } = await import(new URL("internals.js", dist).href);
  const database = await openDatabase(path);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  database.exec("CREATE TABLE item (id INTEGER PRIMARY KEY, body BLOB NOT NULL)");
  const statement = database.prepare("INSERT INTO item (body) VALUES (?)");
  const body = Buffer.from(message(random, 0).content);
  for (let done = 0; done < total; done++) statement.run(body);
  database.close();
}

async function save() {
  /** @type {typeof import("savepoint")} */
  const { Savepoint } = await import(new URL("index.js", dist).href);
  const sp = await Savepoint.open(`sqlite:${path}`, { durability: "process" });
  let session = sp.session("thread");
  /** @type {ReturnType<typeof message>[]} */
  let thread = [];
  for (let done = 0; done < total; done++) {
    if (done % LENGTH === 0) {
      session = sp.session(`thread-${done}`);
      thread = added.slice(0, LENGTH);
      await session.save({ messages: thread });
    }
    const next = /** @type {ReturnType<typeof message>} */ (added[LENGTH + (done % (added.length - LENGTH))]);
    thread.push(next);
    await (work === "append" ? session.append("/messages", [next]) : session.save({ messages: thread }));
  }
  await sp.close();
}
