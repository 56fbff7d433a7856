// One conversation that grows by a 1 kB message a step, saved at every step: Savepoint beside LangGraph's SQLite saver
// and a JSON file per step. All run here, in turns, on the same states.
//
//   npm run bench [steps]
//
// The peers live in bench/peers, so that the package does not depend on them; they are installed on the first run.
import { spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Savepoint } from "savepoint";

/** @typedef {{ id: string; role: string; content: string }} Message */
/** @typedef {{ total: number; at: number[]; bytes: number; load: number }} Result */
/** @typedef {{ name: string; run: (folder: string, steps: number) => Promise<Result> }} Contender */

const STEPS = Number(process.argv[2] ?? 1000);
const ROUNDS = 3;
const MARKS = [10, 100, 1000, 3000, 10_000].filter((step) => step <= STEPS);
const peers = fileURLToPath(new URL("./peers/", import.meta.url));

/** @type {Contender[]} */
const contenders = [
  { name: "Savepoint, process", run: (folder, steps) => savepoint(folder, steps, "process") },
  { name: "Savepoint, power", run: (folder, steps) => savepoint(folder, steps, "power") },
  { name: "Savepoint append, process", run: appending },
  { name: "LangGraph SqliteSaver", run: langGraph },
  { name: "a JSON file per step, fsynced", run: jsonFiles },
];

installPeers();
/** @type {Map<string, Result[]>} */
const results = new Map(contenders.map(({ name }) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const { name, run } of contenders) {
    const folder = mkdtempSync(join(tmpdir(), "savepoint-bench-"));
    try {
      results.get(name)?.push(await run(folder, STEPS));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    console.error(`round ${round + 1}/${ROUNDS}: ${name}`);
  }
}
report();

/** @param {string} folder @param {number} steps @param {"process" | "power"} durability @returns {Promise<Result>} */
async function savepoint(folder, steps, durability) {
  const url = `sqlite:${join(folder, "bench.db")}`;
  const sp = await Savepoint.open(url, { durability });
  const session = sp.session("thread");
  const timing = await grow(steps, (messages) => session.save({ messages }));
  await sp.close();
  return { ...timing, bytes: sizeOf(folder), load: await loadSavepoint(url) };
}

/** @param {string} folder @param {number} steps @returns {Promise<Result>} */
async function appending(folder, steps) {
  const url = `sqlite:${join(folder, "bench.db")}`;
  const sp = await Savepoint.open(url, { durability: "process" });
  const session = sp.session("thread");
  await session.save({ messages: [makeMessage(-1)] });
  const timing = await grow(steps, (messages) => session.append("/messages", [messages.at(-1)]));
  await sp.close();
  return { ...timing, bytes: sizeOf(folder), load: await loadSavepoint(url) };
}

/** @param {string} url */
async function loadSavepoint(url) {
  const sp = await Savepoint.open(url);
  const times = [];
  for (let n = 0; n < 15; n++) {
    const other = await Savepoint.open(url);
    times.push(await timed(() => other.session("thread").latest()));
    await other.close();
  }
  await sp.close();
  return median(times);
}

/** @param {string} folder @param {number} steps @returns {Promise<Result>} */
async function langGraph(folder, steps) {
  const require = createRequire(join(peers, "package.json"));
  const entry = pathToFileURL(require.resolve("@langchain/langgraph-checkpoint-sqlite")).href;
  const { SqliteSaver } = await import(entry);
  const saver = SqliteSaver.fromConnString(join(folder, "bench.db"));
  let config = { configurable: { thread_id: "thread", checkpoint_ns: "" } };
  const timing = await grow(steps, async (messages, step) => {
    const id = `1ef00000-0000-6000-8000-${String(step).padStart(12, "0")}`;
    const versions = { messages: step + 1 };
    const checkpoint = {
      v: 4,
      id,
      ts: new Date().toISOString(),
      channel_values: { messages },
      channel_versions: versions,
      versions_seen: {},
    };
    config = await saver.put(config, checkpoint, { source: "loop", step, parents: {} }, versions);
  });
  const times = [];
  for (let n = 0; n < 15; n++) {
    times.push(await timed(() => saver.getTuple({ configurable: { thread_id: "thread", checkpoint_ns: "" } })));
  }
  saver.db.close();
  return { ...timing, bytes: sizeOf(folder), load: median(times) };
}

/** @param {string} folder @param {number} steps @returns {Promise<Result>} */
async function jsonFiles(folder, steps) {
  const timing = await grow(steps, (messages, step) => {
    const file = openSync(join(folder, `${step}.json`), "w");
    writeSync(file, JSON.stringify({ messages }));
    fsyncSync(file);
    closeSync(file);
  });
  const { readFileSync } = await import("node:fs");
  const load = median(
    await Promise.all(
      Array.from({ length: 15 }, () =>
        timed(() => JSON.parse(readFileSync(join(folder, `${steps - 1}.json`), "utf8"))),
      ),
    ),
  );
  return { ...timing, bytes: sizeOf(folder), load };
}

/** Saves a growing list step by step: the time of all, and the median around each mark. @param {number} steps @param {(messages: Message[], step: number) => unknown} save */
async function grow(steps, save) {
  /** @type {Message[]} */
  const messages = [];
  /** @type {number[]} */
  const times = [];
  for (let step = 0; step < steps; step++) {
    messages.push(makeMessage(step));
    times.push(await timed(() => save(messages, step)));
  }
  const at = MARKS.map((mark) => median(times.slice(Math.max(0, mark - 10), mark)));
  return { total: times.reduce((sum, time) => sum + time, 0), at };
}

/** @param {number} step @returns {Message} */
function makeMessage(step) {
  return { id: `m${step}`, role: step % 2 ? "assistant" : "user", content: `${step} `.padEnd(1000, "abcdefgh ") };
}

/** @param {() => unknown} work */
async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** @param {number[]} values */
function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

/** @param {string} folder */
function sizeOf(folder) {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

function installPeers() {
  if (existsSync(join(peers, "node_modules", "@langchain"))) return;
  console.error("installing the peers (better-sqlite3 may have to compile, which takes minutes)");
  const { status } = spawnSync("npm", ["ci"], { cwd: peers, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Error("the peers could not be installed");
}

function report() {
  const peer = results.get("LangGraph SqliteSaver") ?? [];
  const head = ["", "total", ...MARKS.map((mark) => `save at ${mark}`), "on disk", "load latest", "time ×", "bytes ×"];
  const rows = contenders.map(({ name }) => {
    const mine = results.get(name) ?? [];
    const of = (/** @type {(result: Result) => number} */ pick, /** @type {Result[]} */ list = mine) =>
      median(list.map(pick));
    const spread = mine.map((result) => result.total).sort((a, b) => a - b);
    return [
      name,
      `${of((r) => r.total).toFixed(0)} ms (${spread.at(0)?.toFixed(0)}–${spread.at(-1)?.toFixed(0)})`,
      ...MARKS.map((_, index) => `${of((r) => r.at[index] ?? 0).toFixed(2)} ms`),
      `${(of((r) => r.bytes) / 1e6).toFixed(2)} MB`,
      `${of((r) => r.load).toFixed(2)} ms`,
      (of((r) => r.total) / of((r) => r.total, peer)).toFixed(4),
      (of((r) => r.bytes) / of((r) => r.bytes, peer)).toFixed(5),
    ];
  });
  console.log(
    `${STEPS} steps, Node ${process.version}, medians of ${ROUNDS} rounds; × against LangGraph's SqliteSaver\n`,
  );
  for (const row of [head, head.map(() => "---"), ...rows]) console.log(`| ${row.join(" | ")} |`);
}
