// What a process needs for what it keeps open: see memory.mjs.
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { input } from "./lib/child.mjs";
import { message, messages, seeded } from "./lib/states.mjs";

const { which, folder } = /** @type {{ which: string; folder: string }} */ (input());
const before = read();
const url = `sqlite:${join(folder, "bench.db")}`;
/** What the caller keeps. @type {unknown[]} */
const kept = [];
/** @type {Record<string, () => Promise<Savepoint>>} */
const cases = {
  idle: () => Savepoint.open(url),
  sessions: () => saveSessions({}),
  sessionsBounded: () => saveSessions({ cacheBytes: 16 * 2 ** 20 }),
  large: () => saveLarge(false),
  largeChanged: () => saveLarge(true),
};
const sp = await cases[which]?.();
if (!sp) throw new Error(`There is no case ${which}.`);
const after = read();
const peak = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ rss: after.rss - before.rss, heap: after.heap - before.heap, peak: peak - before.rss }));
await sp.close();

/** @param {{ cacheBytes?: number }} options */
async function saveSessions(options) {
  const opened = await Savepoint.open(url, { durability: "process", ...options });
  for (let number = 0; number < 1000; number++) {
    const session = opened.session(`s${number}`);
    kept.push(session);
    await session.save({ messages: messages(seeded(number), 100) });
  }
  return opened;
}

/** @param {boolean} change */
async function saveLarge(change) {
  const opened = await Savepoint.open(url, { durability: "process" });
  const session = opened.session("s");
  const state = { messages: messages(seeded(1), 100_000) };
  kept.push(state, session);
  await session.save(state);
  if (change) {
    state.messages[50_000] = message(seeded(2), 7);
    await session.save(state);
  }
  return opened;
}

function read() {
  globalThis.gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rss, heap: heapUsed + external };
}
