// Savepoint on PostgreSQL, beside bare INSERTs, DBOS Transact and LangGraph's PostgresSaver: all on one server, in turns.
//
//   npm run bench postgres                     all of it, in less than eight minutes
//   npm run bench postgres 0.1                 a tenth of that, to see that it works
//   npm run bench postgres recording takeover  some of it
import { withPostgres } from "./lib/postgres-server.mjs";
import { report } from "./lib/report.mjs";
import { growth } from "./postgres/growth.mjs";
import { recording } from "./postgres/recording.mjs";
import { resuming } from "./postgres/resuming.mjs";
import { sessions } from "./postgres/sessions.mjs";
import { takeover } from "./postgres/takeover.mjs";

/** @typedef {import("./lib/postgres-server.mjs").Server} Server */
/** @typedef {import("./lib/report.mjs").Table} Table */
/** @typedef {Record<string, number>} Figures */

/** Each with what it does at full length. @type {Record<string, (server: Server, share: number) => Promise<{ tables: Table[]; figures: Figures }>>} */
const PARTS = {
  recording: (server, share) => recording(server, { slices: some(60, share), length: 50 }),
  growth: (server, share) => growth(server, { steps: some(1000, share), rounds: some(2, share) }),
  resuming: (server, share) => resuming(server, { steps: some(1000, share), rounds: some(5, share) }),
  takeover: (server, share) => takeover(server, { leases: [2000, 5000], rounds: some(3, share) }),
  sessions: (server, share) => sessions(server, { seconds: 2 * share, rounds: some(3, share) }),
};

/** @param {string[]} args a share of the full length, and the names of parts: one, or both, or none for all of it */
export default async function postgres(args) {
  const share = Number(args.find((arg) => Number(arg) > 0) ?? 1);
  const names = args.filter((arg) => Number.isNaN(Number(arg)));
  const unknown = names.find((name) => !(name in PARTS));
  if (unknown !== undefined)
    throw new Error(`There is no part ${unknown}. There are: ${Object.keys(PARTS).join(", ")}.`);
  /** @type {Table[]} */
  const tables = [];
  /** @type {Record<string, Figures>} */
  const figures = {};
  await withPostgres(async (server) => {
    for (const [name, run] of Object.entries(PARTS)) {
      if (names.length > 0 && !names.includes(name)) continue;
      console.error(`\n--- ${name}`);
      // What was written before is not left for this part to write out.
      await server.query("CHECKPOINT");
      const result = await run(server, share);
      tables.push(...result.tables);
      figures[name] = result.figures;
    }
  });
  /** @type {Figures} */
  const all = {};
  for (const part of Object.values(figures)) Object.assign(all, part);
  report("postgres", tables, all);
}

/** @param {number} count @param {number} share */
const some = (count, share) => Math.max(1, Math.round(count * share));
