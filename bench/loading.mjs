// Loading the latest state of a thread of 1,000 messages of 1 kB, with nothing cached: in a new process each time, and with a
// newly opened store and a new handle each time. Savepoint verifies and validates what it reads; SqliteSaver does neither.
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { grow, langGraphThread } from "./growth.mjs";
import { inChild } from "./lib/child.mjs";
import { inFolder, inTurns, median, quantile } from "./lib/measure.mjs";
import { loadSqliteSaver } from "./lib/peers.mjs";
import { ms, ratio, report } from "./lib/report.mjs";

/** @typedef {{ open: number; first: number; warmOpen: number; warm: number }} Result milliseconds */

const PEER = "LangGraph SqliteSaver";
const COMPACTED = "Savepoint, after compact()";

/** @param {string[]} args messages, rounds */
export default async function loading(args) {
  const [count = 1000, rounds = 15] = args.map(Number);
  const SqliteSaver = await loadSqliteSaver();
  await inFolder(async (folder) => {
    const files = {
      plain: join(folder, "plain.db"),
      compacted: join(folder, "compacted.db"),
      peer: join(folder, "peer.db"),
    };
    await write(files.plain, count, false);
    await write(files.compacted, count, true);
    const saver = SqliteSaver.fromConnString(files.peer);
    await grow(count, langGraphThread(saver));
    saver.db.close();
    const load = (/** @type {string} */ who, /** @type {string} */ file) => async () =>
      /** @type {Result} */ (inChild("loading-child.mjs", { who, file, count }));
    const results = await inTurns(
      {
        Savepoint: load("savepoint", files.plain),
        [COMPACTED]: load("savepoint", files.compacted),
        [PEER]: load("peer", files.peer),
      },
      rounds,
    );
    const of = (/** @type {string} */ name, /** @type {keyof Result} */ key) =>
      (results[name] ?? []).map((r) => r[key]);
    const versus = (/** @type {string} */ name, /** @type {keyof Result} */ key) =>
      median(of(name, key)) / median(of(PEER, key));
    const cell = (/** @type {number[]} */ times) =>
      `${ms(median(times))} (${ms(quantile(times, 0.1))}–${ms(quantile(times, 0.9))})`;
    report(
      "loading",
      [
        {
          title: `Loading the latest state of ${count} messages of 1 kB with nothing cached`,
          head: ["", "opening", "first load of a process", "vs. peer", "opening, warm", "load, warm", "vs. peer"],
          rows: Object.keys(results).map((name) => [
            name,
            cell(of(name, "open")),
            cell(of(name, "first")),
            ratio(versus(name, "first")),
            cell(of(name, "warmOpen")),
            cell(of(name, "warm")),
            ratio(versus(name, "warm")),
          ]),
          notes: [
            "Opening does not include importing the library, but for the store itself, which Savepoint imports when it is opened. Warm: the median of 15 loads, each with a newly opened store. SqliteSaver verifies nothing.",
          ],
        },
      ],
      {
        first: versus("Savepoint", "first"),
        warm: versus("Savepoint", "warm"),
        firstCompacted: versus(COMPACTED, "first"),
        warmCompacted: versus(COMPACTED, "warm"),
      },
    );
  });
}

/** @param {string} file @param {number} count @param {boolean} compacted */
async function write(file, count, compacted) {
  const sp = await Savepoint.open(`sqlite:${file}`, { durability: "process" });
  const session = sp.session("thread");
  await grow(count, (messages) => session.save({ messages }));
  if (compacted) await sp.compact();
  await sp.close();
}
