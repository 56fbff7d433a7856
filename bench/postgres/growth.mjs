// One conversation that grows by a 1 kB message a step, on PostgreSQL: Savepoint beside LangGraph's PostgresSaver.
import { Savepoint } from "savepoint";
import { grow, langGraphThread, MARKS, readLangGraph, readSavepoint } from "../growth.mjs";
import { inTurns, median } from "../lib/measure.mjs";
import { loadPostgresSaver, versionOf } from "../lib/peers.mjs";
import { inSchema, sizeOfSchema } from "../lib/postgres-server.mjs";
import { bytes, ms, ratio } from "../lib/report.mjs";
import { message, seeded } from "../lib/states.mjs";

/** @typedef {import("../lib/postgres-server.mjs").Server} Server */
/** @typedef {{ total: number; at: number[]; bytes: number; packed: number; load: number; history: number }} Result */

const PEER = "LangGraph PostgresSaver";
const SAVE = "Savepoint, save";
const APPEND = "Savepoint, append";

/** @param {Server} server @param {{ steps: number; rounds: number }} size */
export async function growth(server, { steps, rounds }) {
  const PostgresSaver = await loadPostgresSaver();
  const results = await inTurns(
    {
      [SAVE]: () => inSchema(server, (url, schema) => saving(server, url, schema, steps)),
      [APPEND]: () => inSchema(server, (url, schema) => appending(server, url, schema, steps)),
      [PEER]: () => inSchema(server, (_, schema) => langGraph(PostgresSaver, server, schema, steps)),
    },
    rounds,
  );
  const marks = MARKS.filter((mark) => mark <= steps);
  const of = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    median((results[name] ?? []).map(pick));
  const versus = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    of(name, pick) / of(PEER, pick);
  return {
    tables: [
      {
        title: `${steps} steps of 1 kB, the whole state handed over at each`,
        head: [
          "",
          "total (spread)",
          ...marks.map((mark) => `save at ${mark}`),
          "on disk",
          "after VACUUM",
          "load latest",
          "history of 10",
          "time vs. peer",
          "bytes vs. peer",
          "load vs. peer",
        ],
        rows: Object.keys(results).map((name) => {
          const totals = (results[name] ?? []).map((result) => result.total);
          return [
            name,
            `${ms(of(name, (r) => r.total))} (${Math.min(...totals).toFixed(0)}–${Math.max(...totals).toFixed(0)})`,
            ...marks.map((_, index) => ms(of(name, (r) => r.at[index] ?? 0))),
            bytes(of(name, (r) => r.bytes)),
            bytes(of(name, (r) => r.packed)),
            ms(of(name, (r) => r.load)),
            ms(of(name, (r) => r.history)),
            ratio(versus(name, (r) => r.total)),
            ratio(versus(name, (r) => r.bytes)),
            ratio(versus(name, (r) => r.load)),
          ];
        }),
        notes: [
          `PostgresSaver is ${versionOf("@langchain/langgraph-checkpoint-postgres")}. On disk is all that the tables and their indexes take, as the last save left them; Savepoint's \`compact()\` packs before it vacuums.`,
        ],
      },
    ],
    figures: {
      steps,
      time: versus(SAVE, (r) => r.total),
      appendTime: versus(APPEND, (r) => r.total),
      bytes: versus(SAVE, (r) => r.bytes),
      load: versus(SAVE, (r) => r.load),
    },
  };
}

/** @param {Server} server @param {string} url @param {string} schema @param {number} steps @returns {Promise<Result>} */
async function saving(server, url, schema, steps) {
  const sp = await Savepoint.open(url);
  const session = sp.session("thread");
  const timing = await grow(steps, (messages) => session.save({ messages }), makeMessages());
  return finish(server, url, schema, sp, timing);
}

/** @param {Server} server @param {string} url @param {string} schema @param {number} steps @returns {Promise<Result>} */
async function appending(server, url, schema, steps) {
  const sp = await Savepoint.open(url);
  const session = sp.session("thread");
  await session.save({ messages: [] });
  const timing = await grow(steps, (messages) => session.append("/messages", [messages.at(-1)]), makeMessages());
  return finish(server, url, schema, sp, timing);
}

/**
 * @param {Server} server @param {string} url @param {string} schema @param {Savepoint} sp
 * @param {{ total: number; at: number[] }} timing @returns {Promise<Result>}
 */
async function finish(server, url, schema, sp, timing) {
  await sp.close();
  const used = await sizeOfSchema(server, schema);
  const read = await readSavepoint(url);
  const again = await Savepoint.open(url);
  await again.compact();
  await again.close();
  return { ...timing, ...read, bytes: used, packed: await sizeOfSchema(server, schema) };
}

/** @param {any} PostgresSaver @param {Server} server @param {string} schema @param {number} steps @returns {Promise<Result>} */
async function langGraph(PostgresSaver, server, schema, steps) {
  const saver = PostgresSaver.fromConnString(server.url, { schema });
  await saver.setup();
  const timing = await grow(steps, langGraphThread(saver), makeMessages());
  const used = await sizeOfSchema(server, schema);
  const read = await readLangGraph(saver, 2);
  await saver.end();
  for (const table of ["checkpoints", "checkpoint_blobs", "checkpoint_writes"]) {
    await server.query(`VACUUM ${schema}.${table}`);
  }
  return { ...timing, ...read, bytes: used, packed: await sizeOfSchema(server, schema) };
}

/** Of words, because PostgreSQL compresses large values: text that repeats itself would flatter the peer. */
function makeMessages() {
  const random = seeded(1);
  return (/** @type {number} */ step) => message(random, step);
}
