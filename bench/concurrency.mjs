// Many sessions that save at once, power-safe, on this disk and on slower ones: what they share, and what they wait for.
import { inChild } from "./lib/child.mjs";
import { inFolder, inTurns, median } from "./lib/measure.mjs";
import { ms, ratio, report } from "./lib/report.mjs";
import { slowFsync } from "./lib/slow-fsync.mjs";

/** @typedef {{ rate: number; p50: number; p99: number; late: number; latest: number }} Result */

const DISKS = [0, 2, 20];
const SESSIONS = [1, 8, 64];

/** @param {string[]} args saves in a run, saves in a run on a slow disk, rounds */
export default async function concurrency(args) {
  const [saves = 2000, slowSaves = 300, rounds = 3] = args.map(Number);
  const made = await inFolder(async (folder) => {
    const made = [];
    for (const delay of DISKS) made.push(await onDisk(folder, delay, delay > 0 ? slowSaves : saves, rounds));
    return made;
  });
  report(
    "concurrency",
    made.map(({ table }) => table),
    made[0]?.figures,
  );
}

/** @param {string} folder @param {number} delay @param {number} saves @param {number} rounds */
async function onDisk(folder, delay, saves, rounds) {
  const title =
    delay === 0 ? "Sessions that save at once, the disk as it is" : `The same, every fsync ${delay} ms later`;
  const head = [
    "sessions",
    "saves/s (spread)",
    "save p50",
    "save p99",
    "event loop late p99",
    "at most",
    "saves/s vs. 1 session",
  ];
  const env = slowFsync(folder, delay);
  if (!env) {
    const rows = SESSIONS.map((sessions) => [
      sessions,
      "not measured: needs gcc",
      ...Array.from({ length: 5 }, () => "–"),
    ]);
    return { table: { title, head, rows } };
  }
  const run = (/** @type {number} */ sessions) => async () => {
    const result = await inFolder(async (own) =>
      inChild("concurrency-child.mjs", { folder: own, sessions, saves }, env),
    );
    return /** @type {Result} */ (result);
  };
  const results = await inTurns(
    Object.fromEntries(SESSIONS.map((sessions) => [`${sessions} sessions, fsync +${delay} ms`, run(sessions)])),
    rounds,
  );
  const runsOf = Object.values(results);
  const of = (/** @type {number} */ index, /** @type {keyof Result} */ key) =>
    median((runsOf[index] ?? []).map((result) => result[key]));
  const table = {
    title,
    head,
    rows: SESSIONS.map((sessions, index) => {
      const rates = (runsOf[index] ?? []).map(({ rate }) => rate);
      return [
        sessions,
        `${of(index, "rate").toFixed(0)} (${Math.min(...rates).toFixed(0)}–${Math.max(...rates).toFixed(0)})`,
        ms(of(index, "p50")),
        ms(of(index, "p99")),
        ms(of(index, "late")),
        ms(of(index, "latest")),
        ratio(of(index, "rate") / of(0, "rate")),
      ];
    }),
  };
  const last = SESSIONS.length - 1;
  return { table, figures: { rate: of(last, "rate"), versusOne: of(last, "rate") / of(0, "rate") } };
}
