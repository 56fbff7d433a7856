// Four workers, two hundred sessions of fifty steps, and everything that can happen to them: workers are killed, frozen
// and woken after their leases, and asked to stop; PostgreSQL is restarted as after a crash, connections are cut; no clock
// is right. After each event, and at the end, everything that Savepoint promises is checked.
//
//   npm run test:chaos [-- --seed 7] [--sessions 200] [--seconds 280] [--keep]
//
// It takes five minutes at most. The same seed makes the same plan; what it meets differs from run to run.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { Savepoint } from "savepoint";
import { startPostgres } from "../postgres/server.mjs";
import { Crew } from "./crew.mjs";
import { watchCommits } from "./fence.mjs";
import { Judge } from "./judge.mjs";
import { createRandom, pick } from "./random.mjs";
import { World } from "./world.mjs";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Date.now() % 100_000) },
    sessions: { type: "string", default: "200" },
    seconds: { type: "string", default: "280" },
    workers: { type: "string", default: "4" },
    keep: { type: "boolean", default: false },
  },
});
const [seed, count, seconds, workers] = [values.seed, values.sessions, values.seconds, values.workers].map(Number);
/** How long a worker is left alone, in milliseconds. */
const LEASE = 4000;
/** The last part of the time is for whatever is left when the storm is over. */
const STORM = 0.6;

const random = createRandom(/** @type {number} */ (seed));
const began = performance.now();
const elapsed = () => (performance.now() - began) / 1000;
/** @type {Set<string>} */
const violations = new Set();
/** @param {string} violation */
const violated = (violation) => {
  if (!violations.has(violation)) console.log(`${elapsed().toFixed(1)} s  VIOLATED: ${violation}`);
  violations.add(violation);
};

console.log(`seed ${seed}: ${count} sessions, ${workers} workers`);
const server = await startPostgres();
const folder = mkdtempSync(join(tmpdir(), "savepoint-chaos-"));
const sp = await Savepoint.open(server.url, { on: { backgroundFailure: () => {} } });
await watchCommits(server.url);
const sessions = Array.from({ length: /** @type {number} */ (count) }, (_, n) => `session-${n}`);
const options = { url: server.url, folder, sessions: sessions.length, lease: LEASE, random, violated };
const crew = new Crew({ ...options, isTakenOver: (name) => judge.isTakenOver(name) });
/** @type {Judge} */
const judge = new Judge(server.url, sp, new World(folder, "judge"), crew, sessions, violated);

/** @type {Record<string, () => boolean | Promise<boolean>>} */
const EVENTS = {
  "worker killed": () => crew.kill(),
  "worker frozen and woken": () => crew.freeze(),
  "worker asked to stop": () => crew.drain(),
  "PostgreSQL restarted": async () => {
    await server.crash();
    return true;
  },
  "connections cut": cutConnections,
};
/** What comes how often. */
const WEIGHTS = {
  "worker killed": 3,
  "worker frozen and woken": 4,
  "worker asked to stop": 1,
  "PostgreSQL restarted": 3,
  "connections cut": 4,
};
const PLAN = Object.entries(WEIGHTS).flatMap(([name, weight]) => Array.from({ length: weight }, () => name));
/** @type {Map<string, number>} */
const happened = new Map(Object.keys(EVENTS).map((name) => [name, 0]));

for (let n = 0; n < /** @type {number} */ (workers); n++) crew.hire();
try {
  const total = /** @type {number} */ (seconds);
  await storm(total * STORM);
  await calm(total);
} catch (error) {
  violated(`the suite itself failed: ${error instanceof Error ? error.stack : String(error)}`);
}
await crew.close();
try {
  // Where something was violated it ends at once, and what is not done then says nothing.
  if (violations.size === 0) await judge.judgeAll();
} catch (error) {
  violated(`the suite itself failed: ${error instanceof Error ? error.stack : String(error)}`);
}
await sp.close();
await server.stop();
report();
// Said in so many words: the package that starts the server ends a process that comes to its end with 0.
process.exit(violations.size === 0 ? 0 : 1);

/** @param {number} until in seconds */
async function storm(until) {
  // Until the first of them work there is nothing to disturb.
  while (judge.steps === 0 && elapsed() < until) await look();
  while (elapsed() < until && judge.completed < sessions.length && violations.size === 0) {
    await sleep(300 + random() * 1500);
    const name = pick(random, PLAN);
    if (!(await EVENTS[name]?.())) continue;
    happened.set(name, (happened.get(name) ?? 0) + 1);
    await look(name);
  }
}

/** Nothing happens any more, and everything comes to its end. @param {number} until in seconds */
async function calm(until) {
  while (elapsed() < until && judge.completed < sessions.length && violations.size === 0) {
    await sleep(1000);
    await look("waiting for the rest");
  }
}

async function look(name = "workers start") {
  await judge.look([pick(random, sessions), pick(random, sessions)]);
  const done = `${judge.completed}/${sessions.length} sessions, ${judge.steps} steps`;
  console.log(`${elapsed().toFixed(1).padStart(6)} s  ${name.padEnd(24)} ${done}, ${judge.takeovers} takeovers`);
}

/** Cuts the connections of one kind or another, whatever they are used for just now. */
async function cutConnections() {
  const client = new pg.Client({ connectionString: server.url });
  client.on("error", () => {});
  try {
    await client.connect();
    const share = random();
    await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND application_name = 'savepoint' AND random() < $1`,
      [share],
    );
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

function report() {
  const rows = {
    ...Object.fromEntries(happened),
    "sessions taken over by another worker": judge.takeovers,
    "runs refused because their lease was lost": judge.refused,
    "effects done again, because nobody knew": judge.repeated,
    "effects of woken processes, which nobody can stop": judge.excused + judge.unlucky,
    "acknowledgements checked": judge.acknowledged,
    "steps acknowledged": judge.steps,
    "sessions completed": `${judge.completed} of ${sessions.length}`,
    "workers started": crew.hired,
    seconds: elapsed().toFixed(1),
  };
  console.log(`\nseed ${seed}`);
  for (const [name, value] of Object.entries(rows)) console.log(`  ${name.padEnd(52)}${String(value).padStart(12)}`);
  if (violations.size === 0) {
    if (values.keep) console.log(`\nwhat the workers did is in ${folder}`);
    else rmSync(folder, { recursive: true, force: true });
    console.log("\nnothing was violated");
    return;
  }
  console.log(`\n${violations.size} violations; what the workers did is in ${folder}`);
  for (const violation of [...violations].slice(0, 50)) console.log(`  ${violation}`);
}
