// The goals: what each figure of the results should be.
import { bytes, ms, ratio } from "../lib/report.mjs";

/** @typedef {(bench: string, figure: string) => number | undefined} Read */
/**
 * @typedef {object} Goal
 * @property {string} what
 * @property {string} goal
 * @property {(read: Read) => { show: string; reached: boolean } | undefined} check `undefined` if it was not measured
 */

/** @param {string} what @param {string} bench @param {string} figure @param {number} most @param {(value: number) => string} show @returns {Goal} */
const atMost = (what, bench, figure, most, show) => ({
  what,
  goal: `≤ ${show(most)}`,
  check: checked(bench, figure, show, (value) => value <= most),
});

/** @param {string} what @param {string} bench @param {string} figure @param {number} least @param {(value: number) => string} show @returns {Goal} */
const atLeast = (what, bench, figure, least, show) => ({
  what,
  goal: `≥ ${show(least)}`,
  check: checked(bench, figure, show, (value) => value >= least),
});

/** @param {string} bench @param {string} figure @param {(value: number) => string} show @param {(value: number) => boolean} isReached @returns {Goal["check"]} */
function checked(bench, figure, show, isReached) {
  return (read) => {
    // JSON has `null` for a figure that was not measured.
    const value = read(bench, figure) ?? undefined;
    return value === undefined ? undefined : { show: show(value), reached: isReached(value) };
  };
}

const times = (/** @type {number} */ value) => `${value.toFixed(2)}×`;
const microseconds = (/** @type {number} */ value) => `${value.toFixed(0)} µs`;
const roundTrips = (/** @type {number} */ value) => `${value.toFixed(0)} round trips`;

/** @type {Goal[]} */
export const GOALS = [
  atMost("1,000-step thread, new process, time against SqliteSaver", "growth", "coldTime", 1 / 30, ratio),
  atMost("the same, bytes", "growth", "coldBytes", 1 / 350, ratio),
  atMost("save at step 1,000 against SqliteSaver, new process", "growth", "coldSaveAt1000", 1 / 45, ratio),
  atMost("the same, warm", "growth", "warmSaveAt1000", 1 / 45, ratio),
  atMost("whole save at step 3,000 against step 10", "growth", "lateSave", 1.5, times),
  atMost("one append, `process`, against INSERT + commit", "floors", "appendProcess", 5, times),
  atMost("one append, `power`, against INSERT + commit", "floors", "appendPower", 1.6, times),
  atMost("first load of a process, against SqliteSaver, which verifies nothing", "loading", "first", 1, times),
  atMost("load with a new handle, warm, against SqliteSaver", "loading", "warm", 1, times),
  atMost("LangGraph, added per step, against SqliteSaver with DeltaChannel", "langgraph", "addedVsDelta", 1, times),
  atMost("LangGraph, added per step, against LangGraph's MemorySaver", "langgraph", "addedVsMemory", 0.1, ratio),
  atMost("LangGraph, bytes of a step of 1 kB", "langgraph", "bytes", 1600, bytes),
  atMost("LangGraph, list of 10 against DeltaChannel's", "langgraph", "listVsDelta", 1, times),
  atMost("AI SDK, added per step (model and tool), `process`, first turn of a store", "ai", "firstProcess", 0.7, ms),
  atMost("the same, after 3,000 steps", "ai", "process", 0.7, ms),
  atMost("AI SDK, added per step (model and tool), `power`, first turn of a store", "ai", "firstPower", 1.8, ms),
  atMost("the same, after 3,000 steps", "ai", "power", 1.8, ms),
  atMost("AI SDK, bytes of a step", "ai", "bytes", 2000, bytes),
  atLeast("PostgreSQL: one recorded effect, rate against a bare INSERT", "postgres", "effect", 0.75, times),
  atLeast("PostgreSQL: one whole save, rate against a bare INSERT", "postgres", "save", 0.62, times),
  atLeast("PostgreSQL: 32 sessions, rate against 32 connections that INSERT", "postgres", "sessions32", 0.8, times),
  atMost("PostgreSQL: open and resume after `kill -9`, 1,000 steps done", "postgres", "requests", 6, roundTrips),
  atMost("the same, waiting for the server", "postgres", "waited", 10, ms),
  {
    what: "64 sessions at once, `power`, against one",
    goal: "≥ 4.5×, or ≥ 10,000 saves/s",
    check: (read) => {
      const [versus, rate] = [read("concurrency", "versusOne"), read("concurrency", "rate")];
      if (versus === undefined || rate === undefined) return undefined;
      return { show: `${times(versus)}, ${Math.round(rate)} saves/s`, reached: versus >= 4.5 || rate >= 10_000 };
    },
  },
  atMost("1,000,000 checkpoints in 1,000 sessions: save, against few", "scale", "save1000", 1.3, times),
  atMost("the same: latest", "scale", "latest1000", 1.3, times),
  atMost("1,000,000 checkpoints in 50,000 sessions: save, against few", "scale", "save50000", 1.3, times),
  atMost("the same: latest", "scale", "latest50000", 1.3, times),
  atMost(
    "a subtree of 100 kB four times in a state, against once, bytes of the file",
    "memory",
    "repeated",
    1.1,
    times,
  ),
  atMost(
    "encryption, added to a save of 1 kB on SQLite, processor time",
    "encryption",
    "SQLite: save",
    25,
    microseconds,
  ),
  atMost(
    "encryption, bytes of messages of 1 kB against an uncompressed store",
    "encryption",
    "SQLite: bytes of messages of 1000",
    1.2,
    times,
  ),
  atMost("the same, messages of 140 characters", "encryption", "SQLite: bytes of messages of 140", 1.2, times),
  atMost("a search after one more message, 1,000 conversations", "search", "afterOne", 5, ms),
  atMost("a second checkpoint of an agent with 1,000 unchanged conversations", "search", "unchanged", 10, ms),
  atMost('`import "savepoint"`, over `node -e 0`', "start", "import", 90, ms),
  atMost("`savepoint log`, against `node -e 0`", "start", "log", 2.5, times),
  atMost("the same with plain files", "start", "logFiles", 2.5, times),
];
