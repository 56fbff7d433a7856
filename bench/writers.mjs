// The ways to make a commit durable, on bare SQLite and with groups: what a save waits for, and what the event loop does.
import { inChild } from "./lib/child.mjs";
import { inFolder, inTurns, median } from "./lib/measure.mjs";
import { ms, ratio, report } from "./lib/report.mjs";
import { slowFsync } from "./lib/slow-fsync.mjs";

/** @typedef {{ rate: number; p50: number; p99: number; late: number; latest: number; driver: string }} Result */

const FLOOR = "inline FULL";
const WAYS = [
  FLOOR,
  "writer thread",
  "inline NORMAL + fdatasync",
  "inline NORMAL + fdatasync, here when alone and fast",
];
const DISKS = [0, 2, 20];
const SAVERS = [1, 64];
/** With many savers, each saves at least so often: a few groups say nothing. */
const EACH = 20;

/** @param {string[]} args saves in a run, saves in a run on a slow disk, rounds */
export default async function writers(args) {
  const [saves = 1000, slowSaves = 200, rounds = 3] = args.map(Number);
  const tables = await inFolder(async (folder) => {
    const made = [];
    for (const delay of DISKS) {
      const env = slowFsync(folder, delay);
      for (const savers of SAVERS) {
        const count = Math.max(delay > 0 ? slowSaves : saves, savers > 1 ? savers * EACH : 0);
        made.push(await compare(env, delay, savers, count, rounds));
      }
    }
    return made;
  });
  report("writers", tables);
}

/**
 * @param {NodeJS.ProcessEnv | undefined} env with the disk; `undefined` where it cannot be had
 * @param {number} delay @param {number} savers @param {number} saves @param {number} rounds
 */
async function compare(env, delay, savers, saves, rounds) {
  const disk = delay === 0 ? "the disk as it is" : `every fsync ${delay} ms later`;
  const title = `${savers === 1 ? "1 saver" : `${savers} savers`}, ${disk}`;
  const head = ["", "saves/s", "save p50 (spread)", "save p99", "event loop late p99", "at most", `p50 vs. ${FLOOR}`];
  if (!env) {
    return {
      title,
      head,
      rows: WAYS.map((way) => [way, "not measured: needs gcc", ...Array.from({ length: 5 }, () => "–")]),
    };
  }
  const run = (/** @type {string} */ way) => async () => {
    const result = await inFolder(async (folder) => inChild("writers-child.mjs", { folder, way, savers, saves }, env));
    return /** @type {Result} */ (result);
  };
  process.stderr.write(`${title}\n`);
  const results = await inTurns(Object.fromEntries(WAYS.map((way) => [way, run(way)])), rounds);
  const of = (/** @type {string} */ way, /** @type {Exclude<keyof Result, "driver">} */ key) =>
    median((results[way] ?? []).map((result) => result[key]));
  return {
    title,
    head,
    rows: WAYS.map((way) => {
      const p50s = (results[way] ?? []).map(({ p50 }) => p50);
      return [
        way,
        of(way, "rate").toFixed(0),
        `${ms(of(way, "p50"))} (${ms(Math.min(...p50s))}–${ms(Math.max(...p50s))})`,
        ms(of(way, "p99")),
        ms(of(way, "late")),
        ms(of(way, "latest")),
        ratio(of(way, "p50") / of(FLOOR, "p50")),
      ];
    }),
    notes: [`${saves} saves in a run, rows of 1 kB, SQLite from ${results[FLOOR]?.[0]?.driver}.`],
  };
}
