// What one step costs for states of different sizes and shapes, beside writing the whole state as JSON.
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { openDatabase, rowsOf } from "./lib/inside.mjs";
import { inFolder, inTurns, median, quantile, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";
import { message, messages, seeded, text } from "./lib/states.mjs";

/** @typedef {() => number} Random */
/** @typedef {{ steps: number; cacheBytes?: number; start: (random: Random) => unknown; change: (state: any, step: number, random: Random) => unknown }} Shape */
/** @typedef {{ p50: number; p99: number; stored: number; growth: number; row: number; load: number; json: number }} Result */

const LOADS = 5;
const TRIMMED = "the last 100 messages, trimmed in front";

/** @param {string[]} args the share of all sizes and steps to run, if not 1, and rounds */
export default async function shapes(args) {
  const [share = 1, rounds = 3] = args.map(Number);
  const all = makeShapes((count) => Math.max(3, Math.round(count * share)));
  // The first run in a process pays for the compiler. It is not counted.
  const { [TRIMMED]: first } = all;
  if (first) await inFolder((folder) => run(folder, first));
  const results = await inTurns(
    Object.fromEntries(
      Object.entries(all).map(([name, shape]) => [name, () => inFolder((folder) => run(folder, shape))]),
    ),
    rounds,
  );
  report("shapes", [
    {
      title:
        share === 1
          ? "One step, by the shape of the state"
          : `One step, by the shape of the state, at ${share} of its size`,
      head: [
        "",
        "steps",
        "save p50 (spread)",
        "save p99",
        "written per step",
        "file growth per step",
        "largest row",
        "load",
        "state as JSON",
        "written vs. JSON",
      ],
      rows: Object.entries(results).map(([name, runs]) => {
        const of = (/** @type {keyof Result} */ key) => median(runs.map((result) => result[key]));
        const p50s = runs.map(({ p50 }) => p50);
        return [
          name,
          all[name]?.steps ?? 0,
          `${ms(of("p50"))} (${ms(Math.min(...p50s))}–${ms(Math.max(...p50s))})`,
          ms(of("p99")),
          bytes(of("stored")),
          bytes(of("growth")),
          bytes(of("row")),
          ms(of("load")),
          bytes(of("json")),
          ratio(of("stored") / of("json")),
        ];
      }),
      notes: [
        "The whole state is handed over at each step, with durability `process`. The JSON is that of the last state, which is what a store that writes whole states would write; bytes in it are counted as base64.",
        "File growth is that of the folder from the first save to the end, closed both times and not compacted.",
      ],
    },
  ]);
}

/** @param {(count: number) => number} scaled @returns {Record<string, Shape>} */
function makeShapes(scaled) {
  /** @type {Record<string, Shape>} */
  const shapes = {};
  for (const [name, count] of Object.entries({
    "10 kB": 10,
    "100 kB": 100,
    "1 MB": 1000,
    "10 MB": 10_000,
    "100 MB": 100_000,
  })) {
    shapes[`${name} of messages, one edited`] = {
      steps: count === 100_000 ? 5 : 20,
      start: (random) => ({ messages: messages(random, scaled(count)) }),
      change: (state, step, random) => {
        const index = pick(state.messages, random);
        state.messages[index] = message(random, step);
      },
    };
  }
  const [largest] = Object.entries(shapes).slice(-1);
  // A state that does not fit in the cache is read from the store at every save, so this one is also there with room.
  if (largest) shapes[`${largest[0]}, cacheBytes of 1 GB`] = { ...largest[1], cacheBytes: 2 ** 30 };
  const files = scaled(1000);
  shapes[`${files} files of 4 kB, one edited`] = {
    steps: scaled(300),
    start: (random) => ({
      files: new Map(Array.from({ length: files }, (_, n) => [`src/file-${n}.ts`, text(random, 4000)])),
    }),
    change: ({ files: map }, _, random) => {
      const name = `src/file-${Math.floor(random() * files)}.ts`;
      const at = Math.floor(random() * 3900);
      map.set(name, `${map.get(name).slice(0, at)}${text(random, 100)}${map.get(name).slice(at + 100)}`);
    },
  };
  shapes["a string that grows by 1 kB"] = {
    steps: scaled(1000),
    start: () => ({ output: "" }),
    change: (state, _, random) => {
      state.output += text(random, 1000);
    },
  };
  shapes["a thread that grows by an image of 200 kB"] = {
    steps: scaled(30),
    start: () => ({ messages: [] }),
    change: ({ messages: thread }, step, random) => {
      // Noise, as a compressed image is.
      const image = Uint8Array.from({ length: 200_000 }, () => random() * 256);
      thread.push({
        id: `m${step}`,
        role: "user",
        content: [
          { type: "text", text: "Look." },
          { type: "image", image },
        ],
      });
    },
  };
  shapes[TRIMMED] = {
    steps: scaled(300),
    start: (random) => ({ messages: messages(random, 100) }),
    change: ({ messages: thread }, step, random) => {
      thread.push(message(random, 100 + step));
      thread.shift();
    },
  };
  shapes[`edits anywhere in ${scaled(2000)} messages of 100 B`] = {
    steps: scaled(300),
    start: (random) => ({ messages: messages(random, scaled(2000), 100) }),
    change: ({ messages: thread }, step, random) => {
      const index = pick(thread, random);
      // Inserts, deletes or replaces.
      const kind = Math.floor(random() * 3);
      const added = kind === 1 ? [] : [message(random, 10_000 + step, 100)];
      thread.splice(index, kind === 0 ? 0 : 1, ...added);
    },
  };
  return shapes;
}

/** @param {string} folder @param {Shape} shape @returns {Promise<Result>} */
async function run(folder, { steps, cacheBytes, start, change }) {
  const random = seeded(1);
  const path = join(folder, "bench.db");
  const state = start(random);
  await withStore(path, cacheBytes, (session) => session.save(state));
  const before = sizeOf(folder);

  /** @type {number[]} */
  const times = [];
  let stored = 0;
  let id = "";
  await withStore(path, cacheBytes, async (session) => {
    // The first step is not counted: it reads what the store has.
    for (let step = 0; step <= steps; step++) {
      change(state, step, random);
      const time = await timed(async () => {
        const saved = await session.save(state);
        id = saved.id;
        if (step > 0) stored += saved.storedBytes;
      });
      if (step > 0) times.push(time);
    }
  });
  const growth = (sizeOf(folder) - before) / (steps + 1);
  const row = await largestRow(path);
  const load = await withStore(path, cacheBytes, async (session) => {
    const loads = [];
    for (let n = 0; n < LOADS; n++) loads.push(await timed(() => session.load(id)));
    return median(loads);
  });
  const [p50, p99] = [median(times), quantile(times, 0.99)];
  return { p50, p99, stored: stored / steps, growth, row, load, json: JSON.stringify(state, plain).length };
}

/**
 * @template T @param {string} path @param {number | undefined} cacheBytes
 * @param {(session: ReturnType<Savepoint["session"]>) => Promise<T>} work
 */
async function withStore(path, cacheBytes, work) {
  const cache = cacheBytes === undefined ? {} : { cacheBytes };
  const sp = await Savepoint.open(`sqlite:${path}`, { durability: "process", ...cache });
  try {
    return await work(sp.session("thread"));
  } finally {
    await sp.close();
  }
}

/** Characters of the largest checkpoint's row, with the ranges that its state is made of. @param {string} path */
async function largestRow(path) {
  const database = await openDatabase(path);
  const sql = "SELECT max(length(value) + length(refs)) AS length FROM savepoint_record WHERE key >= ? AND key < ?";
  // The store has one session, and the first one's number is 0.
  const { from, to } = rowsOf(0);
  const { length } = /** @type {{ length: number | null }} */ (database.prepare(sql).get(from, to));
  database.close();
  if (length === null) throw new Error("rows are not where they are looked for");
  return length;
}

/** What JSON does not know, as somebody who writes JSON would write it. @param {string} _ @param {unknown} value */
function plain(_, value) {
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
}

/** @param {unknown[]} list @param {Random} random */
const pick = (list, random) => Math.floor(random() * list.length);
