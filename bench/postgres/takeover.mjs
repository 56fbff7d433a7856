// How long a session stands still when the machine that runs it does: a worker is stopped (SIGSTOP), another takes over.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { Savepoint } from "savepoint";
import { median } from "../lib/measure.mjs";
import { inSchema } from "../lib/postgres-server.mjs";
import { ms } from "../lib/report.mjs";
import { walker } from "./takeover-child.mjs";

/** @typedef {import("../lib/postgres-server.mjs").Server} Server */
/** @typedef {{ taken: number; refused: boolean }} Result */

const child = fileURLToPath(new URL("./takeover-child.mjs", import.meta.url));

/** @param {Server} server @param {{ leases: number[]; rounds: number }} size */
export async function takeover(server, { leases, rounds }) {
  /** @type {Result[][]} */
  const results = leases.map(() => []);
  for (let round = 0; round < rounds; round++) {
    process.stderr.write(`round ${round + 1}/${rounds}: a worker is stopped\n`);
    // They wait for most of the time, and may do so together.
    const taken = await Promise.all(leases.map((lease) => inSchema(server, (url) => takeOver(url, lease))));
    for (const [index, each] of taken.entries()) results[index]?.push(each);
  }
  const late = leases.map((lease, index) => (results[index] ?? []).map(({ taken }) => taken - lease));
  return {
    tables: [
      {
        title: "Taking over from a worker that was stopped",
        head: ["lease", "taken over after (spread)", "less the lease", "at most", "the stopped one, woken, is refused"],
        rows: leases.map((lease, index) => {
          const times = (results[index] ?? []).map(({ taken }) => taken);
          return [
            `${lease / 1000} s`,
            `${ms(median(times))} (${Math.min(...times).toFixed(0)}–${Math.max(...times).toFixed(0)})`,
            ms(median(times) - lease),
            ms(Math.max(...times) - lease),
            `${(results[index] ?? []).filter(({ refused }) => refused).length} of ${times.length}`,
          ];
        }),
        notes: [
          "From SIGSTOP to the first line of the agent's step in the other worker, which does nothing else meanwhile. A lease is renewed three times in its length, so it had up to a third of it less to run. DBOS Transact without its paid service never hands over.",
        ],
      },
    ],
    figures: { late: Math.max(...late.flat()) },
  };
}

/** @param {string} url @param {number} lease @returns {Promise<Result>} */
async function takeOver(url, lease) {
  const sp = await Savepoint.open(url);
  const one = spawn(process.execPath, [child, url, String(lease)], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise((resolve) => one.once("exit", (code) => resolve(code)));
  try {
    const lines = createInterface({ input: one.stdout })[Symbol.asyncIterator]();
    const heard = async () => String((await lines.next()).value);
    await heard();
    let arrived = (/** @type {number} */ _at) => {};
    const other = new Promise((resolve) => (arrived = resolve));
    const agent = walker(() => arrived(performance.now()));
    await sp.enqueue(agent, { session: "s", input: {} });
    // The one has done some steps, and is somewhere between two signs of life.
    for (let step = 0; step < 5; step++) await heard();
    const worker = sp.worker([agent], { lease, signals: false });
    await worker.start();
    await sleep(lease * (0.5 + Math.random() / 3));
    const stopped = performance.now();
    one.kill("SIGSTOP");
    const taken = Number(await other) - stopped;
    one.kill("SIGCONT");
    const refused = await exited;
    await worker.stop({ grace: 0 });
    return { taken, refused: refused === 3 };
  } finally {
    one.kill("SIGKILL");
    await sp.close();
  }
}
