// A store with a million checkpoints beside one with few: is everything as quick in it?
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";
import { message, messages, seeded } from "./lib/states.mjs";

/** @typedef {{ open: number; save: number; latest: number; history: number; list: number }} Result */
/** @typedef {{ seconds: number; early: number; late: number; bytes: number }} Fill */

const AT_ONCE = 64;
/** Sessions that are measured. */
const SAMPLE = 200;
/** Bytes of a message's content. */
const CONTENT = 100;
const ROUNDS = 3;
/** Sessions that the store of few must have so that a listing has as much to read in it, and checkpoints for a history. */
const ENOUGH = { sessions: 300, checkpoints: 70 };

/** @param {string[]} args checkpoints, if not a million, and numbers of sessions, if not 1,000 and 50,000 */
export default async function scale(args) {
  const [checkpoints = 1_000_000, ...counts] = args.map(Number);
  const tables = [];
  /** @type {Record<string, number>} */
  const figures = {};
  for (const sessions of counts.length > 0 ? counts : [1000, 50_000]) {
    const compared = await inFolder((folder) => compare(folder, checkpoints, sessions));
    tables.push(...compared.tables);
    for (const [key, value] of Object.entries(compared.figures)) figures[`${key}${sessions}`] = value;
  }
  report("scale", tables, figures);
}

/** @param {string} folder @param {number} checkpoints @param {number} sessions */
async function compare(folder, checkpoints, sessions) {
  const length = Math.max(1, Math.round(checkpoints / sessions));
  const names = sampleOf(sessions);
  const full = join(folder, "full");
  const few = join(folder, "few");
  const filled = await fill(full, sessions, length);
  await fillFew(few, names, Math.min(sessions, ENOUGH.sessions), length);

  const results = await inTurns({ full: () => measure(full, names), few: () => measure(few, names) }, ROUNDS);
  const of = (/** @type {string} */ store, /** @type {keyof Result} */ key) =>
    (results[store] ?? []).map((r) => r[key]);
  const cell = (/** @type {number[]} */ values) =>
    `${ms(median(values))} (${ms(Math.min(...values))}–${ms(Math.max(...values))})`;
  const versus = (/** @type {keyof Result} */ key) => median(of("full", key)) / median(of("few", key));
  const row = (/** @type {string} */ title, /** @type {keyof Result} */ key) => [
    title,
    cell(of("full", key)),
    cell(of("few", key)),
    ratio(versus(key)),
  ];
  const total = length * sessions;
  const tables = [
    {
      title: `Filling a store: ${total} checkpoints in ${sessions} sessions, ${AT_ONCE} at once`,
      head: ["", "time", "saves/s", "first tenth", "last tenth", "file", "per checkpoint", "last tenth vs. first"],
      rows: [
        [
          "append, process",
          `${filled.seconds.toFixed(1)} s`,
          (total / filled.seconds).toFixed(0),
          `${filled.early.toFixed(0)} saves/s`,
          `${filled.late.toFixed(0)} saves/s`,
          bytes(filled.bytes),
          bytes(filled.bytes / total),
          ratio(filled.late / filled.early),
        ],
      ],
    },
    {
      title: `A store of ${total} checkpoints beside one of few, states of ${length} messages`,
      head: ["", `${total} checkpoints (spread)`, "few (spread)", "full vs. few"],
      rows: [
        row("open", "open"),
        row("append, p50", "save"),
        row("latest, p50", "latest"),
        row("history of 10, p50", "history"),
        row("list of 20 sessions, p50", "list"),
      ],
      notes: [
        `Every row is over the same ${names.length} sessions, each turn with a store that was just opened. The files are as warm in the system's cache as memory allows.`,
      ],
    },
  ];
  return { tables, figures: { save: versus("save"), latest: versus("latest") } };
}

/** Sessions to measure, spread over all. @param {number} sessions */
function sampleOf(sessions) {
  const random = seeded(1);
  /** @type {Set<string>} */
  const names = new Set();
  while (names.size < Math.min(SAMPLE, sessions)) names.add(nameOf(Math.floor(random() * sessions)));
  return [...names];
}

/** @param {string} folder @param {number} sessions @param {number} length @returns {Promise<Fill>} */
async function fill(folder, sessions, length) {
  const sp = await openIn(folder);
  const total = sessions * length;
  const start = performance.now();
  const progress = tellProgress(total, start);
  /** When each tenth was done. */
  const tenths = [start];
  let [next, done] = [0, 0];
  const work = async () => {
    while (next < sessions) {
      const number = next++;
      const random = seeded(number);
      const session = sp.session(nameOf(number));
      for (let step = 0; step < length; step++) {
        const added = [message(random, step, CONTENT)];
        await (step === 0 ? session.save({ messages: added }) : session.append("/messages", added));
        progress(++done);
        if (done >= (tenths.length * total) / 10) tenths.push(performance.now());
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const seconds = (performance.now() - start) / 1000;
  await sp.close();
  const rate = (/** @type {number} */ tenth) =>
    total / 10 / (((tenths[tenth] ?? Number.NaN) - (tenths[tenth - 1] ?? Number.NaN)) / 1000);
  return { seconds, early: rate(1), late: rate(10), bytes: sizeOf(folder) };
}

/**
 * The same sessions with states as long, in as few checkpoints as can be.
 * @param {string} folder @param {string[]} names @param {number} sessions with others, if those are fewer @param {number} length
 */
async function fillFew(folder, names, sessions, length) {
  const sp = await openIn(folder);
  for (const [number, name] of names.entries()) {
    const thread = messages(seeded(number), length, CONTENT);
    const session = sp.session(name);
    // In pieces of 64, because that is how a store packs what was appended one by one; the last ones singly.
    const singly = Math.max(0, length - ENOUGH.checkpoints);
    await session.save({ messages: thread.slice(0, Math.min(64, singly)) });
    for (let at = 64; at < singly; at += 64) {
      await session.append("/messages", thread.slice(at, Math.min(at + 64, singly)));
    }
    for (const added of thread.slice(singly)) await session.append("/messages", [added]);
  }
  for (let number = names.length; number < sessions; number++) {
    await sp.session(`other-${number}`).save({ messages: messages(seeded(number), 1, CONTENT) });
  }
  await sp.close();
}

/** @param {string} folder @param {string[]} names @returns {Promise<Result>} */
async function measure(folder, names) {
  const start = performance.now();
  const writer = await openIn(folder);
  const open = performance.now() - start;
  const save = await medianOver(names, async (name, index) => {
    const session = writer.session(name);
    const random = seeded(index);
    // The first save of a process reads the state that it goes on from.
    await session.append("/messages", [message(random, 0, CONTENT)]);
    const added = [message(random, 1, CONTENT)];
    return timed(() => session.append("/messages", added));
  });
  await writer.close();

  const reader = await openIn(folder);
  const latest = await medianOver(names, (name) => timed(() => reader.session(name).latest()));
  const history = await medianOver(names, (name) => timed(() => reader.session(name).history({ limit: 10 }).all()));
  const list = await medianOver(names.slice(0, 20), () => timed(() => reader.sessions.list({ limit: 20 }).all()));
  await reader.close();
  return { open, save, latest, history, list };
}

/** @param {string[]} names @param {(name: string, index: number) => Promise<number>} time */
async function medianOver(names, time) {
  const times = [];
  for (const [index, name] of names.entries()) times.push(await time(name, index));
  return median(times);
}

/** @param {string} folder */
function openIn(folder) {
  mkdirSync(folder, { recursive: true });
  return Savepoint.open(`sqlite:${join(folder, "bench.db")}`, { durability: "process" });
}

/** @param {number} total @param {number} start */
function tellProgress(total, start) {
  let [told, before] = [start, 0];
  return (/** @type {number} */ done) => {
    // Looking at the clock costs something too.
    if (done % 256 !== 0 || performance.now() - told < 5000) return;
    const now = performance.now();
    const rate = (done - before) / ((now - told) / 1000);
    [told, before] = [now, done];
    const left = ((total - done) / done) * ((now - start) / 1000);
    process.stderr.write(`${done} of ${total}, ${rate.toFixed(0)} saves/s, ${left.toFixed(0)} s left\n`);
  };
}

/** @param {number} number */
const nameOf = (number) => `session-${number}`;
