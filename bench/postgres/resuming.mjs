// How long it takes to go on after `kill -9` with many steps done: Savepoint, which reads where it was, and DBOS, which runs
// the workflow from its beginning over the recorded steps. Each goes on in a process of its own.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { inTurns, median } from "../lib/measure.mjs";
import { inSchema } from "../lib/postgres-server.mjs";
import { ms, ratio } from "../lib/report.mjs";

/** @typedef {import("../lib/postgres-server.mjs").Server} Server */
/** @typedef {{ open: number; resume: number; statements: number; requests: number; waited: number }} Result */

const child = fileURLToPath(new URL("./resuming-child.mjs", import.meta.url));

/** @param {Server} server @param {{ steps: number; rounds: number }} size */
export async function resuming(server, { steps, rounds }) {
  const [few, many] = [`Savepoint, ${Math.ceil(steps / 100)} steps done`, `Savepoint, ${steps} steps done`];
  const theirs = `DBOS, ${steps} steps done`;
  const results = await inTurns(
    {
      [few]: () => goOn(server, "savepoint", Math.ceil(steps / 100)),
      [many]: () => goOn(server, "savepoint", steps),
      [theirs]: () => goOn(server, "dbos", steps),
    },
    rounds,
  );
  const of = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    median((results[name] ?? []).map(pick));
  const whole = (/** @type {Result} */ { open, resume }) => open + resume;
  return {
    tables: [
      {
        title: "Resuming after kill -9, in a new process",
        head: [
          "",
          "opening or launching",
          "from there to the step that was interrupted",
          "statements",
          "in round trips",
          "of all this, waiting for the server",
          "whole vs. DBOS",
        ],
        rows: Object.keys(results).map((name) => [
          name,
          ms(of(name, (r) => r.open)),
          ms(of(name, (r) => r.resume)),
          of(name, (r) => r.statements),
          of(name, (r) => r.requests),
          ms(of(name, (r) => r.waited)),
          ratio(of(name, whole) / of(theirs, whole)),
        ]),
        notes: [
          "The clock starts when all modules are loaded. Opening is connecting, and looking at the version of the tables; DBOS resumes what it finds while it launches. Round trips and waiting are of both; statements that are sent together are one round trip.",
        ],
      },
    ],
    figures: {
      steps,
      requests: of(many, (r) => r.requests),
      waited: of(many, (r) => r.waited),
      resume: of(many, (r) => r.resume),
      flat: of(many, (r) => r.resume) / of(few, (r) => r.resume),
      versus: of(many, whole) / of(theirs, whole),
    },
  };
}

/** @param {Server} server @param {"savepoint" | "dbos"} who @param {number} steps @returns {Promise<Result>} */
function goOn(server, who, steps) {
  return inSchema(server, async (url, schema) => {
    const target = who === "dbos" ? server.url : url;
    const killed = start(who, "die", target, schema, steps);
    if (killed.signal !== "SIGKILL") throw new Error(`The process was not killed: ${killed.stderr}`);
    const { status, stdout, stderr } = start(who, "goOn", target, schema, steps);
    if (status !== 0) throw new Error(`It did not go on: ${stderr}`);
    return JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
  });
}

/** @param {string} who @param {string} what @param {string} url @param {string} schema @param {number} steps */
function start(who, what, url, schema, steps) {
  return spawnSync(process.execPath, [child, JSON.stringify({ who, what, url, schema, steps })], { encoding: "utf8" });
}
