// Many sessions that save at once, from one process and from four: how many saves a second there are, how long each waits,
// and from where on more sessions do not mean more saves.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { inTurns, median, quantile } from "../lib/measure.mjs";
import { inSchema } from "../lib/postgres-server.mjs";
import { ms, ratio } from "../lib/report.mjs";

/** @typedef {import("../lib/postgres-server.mjs").Server} Server */
/** @typedef {{ rate: number; p50: number; p99: number; busy: number }} Result */

const child = fileURLToPath(new URL("./sessions-child.mjs", import.meta.url));
const SESSIONS = [1, 8, 32, 128];
const PROCESSES = 4;
/** What reaches this share of the highest rate is as good as it. */
const NEARLY = 0.9;

/** @param {Server} server @param {{ seconds: number; rounds: number }} size */
export async function sessions(server, { seconds, rounds }) {
  const compared = [
    await compare(server, "Savepoint, one process", "append", 1, SESSIONS, seconds, rounds),
    await compare(
      server,
      `Savepoint, ${PROCESSES} processes`,
      "append",
      PROCESSES,
      SESSIONS.map((count) => Math.max(count, PROCESSES)),
      seconds,
      rounds,
    ),
    await compare(server, "bare INSERTs, one process, a connection each", "insert", 1, SESSIONS, seconds, rounds),
  ];
  const [ours, , bare] = compared.map(({ rates }) => rates[SESSIONS.indexOf(32)] ?? Number.NaN);
  return {
    tables: compared.map(({ table }) => table),
    figures: { rate32: ours ?? Number.NaN, sessions32: (ours ?? Number.NaN) / (bare ?? Number.NaN) },
  };
}

/**
 * @param {Server} server @param {string} title @param {"append" | "insert"} what @param {number} processes
 * @param {number[]} counts @param {number} seconds @param {number} rounds
 */
async function compare(server, title, what, processes, counts, seconds, rounds) {
  const results = await inTurns(
    Object.fromEntries(
      counts.map((count) => [
        `${title}: ${count}`,
        () => inSchema(server, (url, schema) => together(server, url, schema, what, processes, count, seconds)),
      ]),
    ),
    rounds,
  );
  const runs = Object.values(results);
  const of = (/** @type {number} */ index, /** @type {keyof Result} */ key) =>
    median((runs[index] ?? []).map((result) => result[key]));
  const highest = Math.max(...counts.map((_, index) => of(index, "rate")));
  const enough = counts.find((_, index) => of(index, "rate") >= NEARLY * highest);
  const table = {
    title: `1 kB appended by many sessions at once: ${title}`,
    head: [
      "sessions",
      "saves/s (spread)",
      "save p50",
      "save p99",
      "processor, each process",
      `saves/s vs. ${counts[0]}`,
    ],
    rows: counts.map((count, index) => {
      const rates = (runs[index] ?? []).map(({ rate }) => rate);
      return [
        count,
        `${of(index, "rate").toFixed(0)} (${Math.min(...rates).toFixed(0)}–${Math.max(...rates).toFixed(0)})`,
        ms(of(index, "p50")),
        ms(of(index, "p99")),
        `${(of(index, "busy") * 100).toFixed(0)} %`,
        ratio(of(index, "rate") / of(0, "rate")),
      ];
    }),
    notes: [
      enough === counts.at(-1)
        ? `With ${enough} it still gains more than a tenth over the step before.`
        : `It saturates with ${enough}: from there on, more sessions add less than a tenth.`,
    ],
  };
  return { table, rates: counts.map((_, index) => of(index, "rate")) };
}

/**
 * @param {Server} server @param {string} url @param {string} schema @param {"append" | "insert"} what
 * @param {number} processes @param {number} count @param {number} seconds @returns {Promise<Result>}
 */
async function together(server, url, schema, what, processes, count, seconds) {
  if (what === "insert") {
    await server.query(`CREATE SCHEMA ${schema}`);
    await server.query(`CREATE TABLE ${schema}.effect (id bigserial PRIMARY KEY, body bytea NOT NULL)`);
  }
  const input = { url: what === "insert" ? server.url : url, schema, what, sessions: count / processes, seconds };
  const children = Array.from({ length: processes }, (_, index) => {
    const args = [child, JSON.stringify({ ...input, name: `p${index}` })];
    const started = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
    return { started, lines: createInterface({ input: started.stdout })[Symbol.asyncIterator]() };
  });
  const answers = async () => Promise.all(children.map(async ({ lines }) => String((await lines.next()).value)));
  // All begin when the last has warmed up.
  await answers();
  for (const { started } of children) started.stdin.end("go\n");
  /** @type {{ rate: number; times: number[]; busy: number }[]} */
  const made = (await answers()).map((line) => JSON.parse(line));
  const times = made.flatMap((each) => each.times);
  return {
    rate: made.reduce((sum, { rate }) => sum + rate, 0),
    p50: median(times),
    p99: quantile(times, 0.99),
    busy: made.reduce((sum, { busy }) => sum + busy, 0) / processes,
  };
}
