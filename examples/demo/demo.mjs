// Kills an agent with SIGKILL at random moments, a dozen times, and starts it again each time. At the end, the log that its
// effects wrote proves how often each of them was executed.
//
//   npm run demo -- --kills 12 --seed 42
//
// The seed determines the planned moments of the kills. What they interrupt also depends on the machine.
//
// Exit code 0: no problems. 1: a recorded effect was repeated, or a policy was violated. 2: invalid arguments.
import { fork } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Savepoint } from "savepoint";
import { prove, readEvidence } from "./proof.mjs";

/** @import { ChildProcess } from "node:child_process" */
/** @import { Line } from "./proof.mjs" */
/** @typedef {{ orders: number; done: string[] }} State */
/** @typedef {{ begins: number; delay: number }} Plan when to kill: `delay` ms after `begins` effects were entered */

const WORKER = fileURLToPath(new URL("worker.mjs", import.meta.url));
const { seed, kills, folder: wanted, command } = readArguments();
const orders = Math.max(3, kills);
const random = createRandom(seed);
const started = performance.now();
const folder = wanted ?? mkdtempSync(join(tmpdir(), "savepoint-demo-"));
/** @type {ChildProcess | undefined} */
let worker;
process.on("exit", () => {
  worker?.kill("SIGKILL");
  if (wanted === undefined) rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

for (const name of ["invoices", "outbox"]) mkdirSync(join(folder, name));
appendFileSync(join(folder, "ledger.txt"), "");
appendFileSync(join(folder, "evidence.log"), "");
const sp = await Savepoint.open(`sqlite:${join(folder, "demo.db")}`);
try {
  process.exitCode = await demo();
} finally {
  await sp.close();
}

async function demo() {
  say(`${orders} orders, ${kills} kills, seed ${seed}: ${command} --kills ${kills} --seed ${seed}`);
  let killed = 0;
  let ended = "";
  for (let life = 1; ended !== "completed"; life++) {
    const plan = killed < kills ? makePlan() : undefined;
    const from = readEvidence(folder).length;
    const end = await live(plan, killed);
    ended = end.ended;
    if (ended === "killed") noteKill(++killed, await inspect());
    if (ended === "waiting") await answer();
    else if (ended !== "killed" && ended !== "completed") {
      say(`the worker ended unexpectedly: ${ended}\n${end.errors}`);
      return 1;
    }
    const evidence = readEvidence(folder);
    say(describe(life, evidence.slice(0, from), evidence.slice(from), killed));
  }
  return conclude(killed);
}

/** Starts the worker and waits until it is killed, waits for an answer, or has completed. @param {Plan | undefined} plan @param {number} killed */
async function live(plan, killed) {
  const child = fork(WORKER, [folder, String(orders)], { stdio: ["ignore", "inherit", "pipe", "ipc"] });
  worker = child;
  let errors = "";
  let begins = 0;
  const kill = () => setTimeout(() => child.kill("SIGKILL"), plan?.delay).unref();
  if (plan?.begins === 0) kill();
  child.on("message", (message) => {
    const { what, effect } = /** @type {Line} */ (message);
    if (what !== "begin") return;
    progress(`${seconds()}  killed ${killed} of ${kills} times; ${effect}`);
    if (++begins === plan?.begins) kill();
  });
  child.stderr?.on("data", (data) => (errors += data));
  const [code, signal] = await new Promise((resolve) => child.on("close", (...how) => resolve(how)));
  worker = undefined;
  progress("");
  if (signal === "SIGKILL") return { ended: "killed", errors };
  return { ended: code === 0 ? (readEvidence(folder).at(-1)?.what ?? "") : `exit code ${code}`, errors };
}

/** Plans a kill in the middle of an effect, between two effects, or while the process starts. @returns {Plan} */
function makePlan() {
  if (random() < 1 / 6) return { begins: 0, delay: 20 + random() * 250 };
  return { begins: 1 + Math.floor(random() * 7), delay: random() * 24 };
}

/** Reads which effects and steps the store has recorded, while no worker runs. */
async function inspect() {
  const journal = /** @type {string[]} */ ([]);
  const latest = await sp.session("orders").latest();
  if (!latest) return { journal, done: 0 };
  for await (const event of sp.watch("orders")) {
    // The status is the last event, after all stored ones.
    if (event.type === "status") break;
    if (event.type === "effect" && event.phase === "end") journal.push(event.callId ?? event.name);
  }
  return { journal, done: /** @type {State} */ (latest.state).done.length };
}

/** @param {number} kill @param {{ journal: string[]; done: number }} stored */
function noteKill(kill, stored) {
  note({ what: "kill", kill, ...stored });
}

/** Answers, as a person would, whether a charge took effect: by reading the ledger. */
async function answer() {
  const waiting = readEvidence(folder).at(-1);
  const effect = waiting?.effect ?? "";
  const order = effect.replace("charge", "order");
  const found = readFileSync(join(folder, "ledger.txt"), "utf8").split("\n").includes(order);
  note({ what: "answer", effect, found });
  await sp.answer(
    "orders",
    found ? { happened: true, result: order.replace("order", "charged") } : { happened: false },
  );
}

/** @param {Record<string, unknown>} line */
function note(line) {
  appendFileSync(join(folder, "evidence.log"), `${JSON.stringify({ at: Date.now(), ...line })}\n`);
}

/**
 * Describes one start of the worker in one line.
 *
 * @param {number} life @param {Line[]} before @param {Line[]} lines @param {number} killed
 */
function describe(life, before, lines, killed) {
  const parts = lines.flatMap(({ what, effect = "", found }) => {
    const again = before.some((line) => line.what === "begin" && line.effect === effect);
    if (what === "look") return [`${effect} ${found ? "verified: exists" : "verified: missing"}`];
    if (what === "answer") return [`${effect}: a person answers that it ${found ? "happened" : "did not happen"}`];
    const known = again && lines.some((line) => line.what === "known" && line.effect === effect);
    if (what === "begin")
      return [known ? `${effect} again (deduplicated by its key)` : again ? `${effect} again` : effect];
    return [];
  });
  const kill = lines.find(({ what }) => what === "kill");
  const first = life > 1 ? "resumes" : "starts";
  const did = shorten(parts) || first;
  if (!kill) return `${seconds()}  #${life}  ${did}${lines.at(-1)?.what === "completed" ? "  DONE" : ""}`;
  const stored = new Set(kill.journal);
  const open = lines.flatMap(({ what, effect = "" }) => (what === "begin" && !stored.has(effect) ? [effect] : []));
  const inside = open.filter((effect) => Number.parseInt(effect.split(" ")[1] ?? "") > (kill.done ?? 0));
  const where =
    inside.length > 0 ? `inside ${inside.join(", ")}` : parts.length > 0 ? "between effects" : "during startup";
  return `${seconds()}  #${life}  ${did}  KILL ${killed} ${where}`;
}

/** @param {string[]} parts */
function shorten(parts) {
  return parts.length > 4
    ? [...parts.slice(0, 2), `… ${parts.length - 3} …`, ...parts.slice(-1)].join(", ")
    : parts.join(", ");
}

/** @param {number} killed */
async function conclude(killed) {
  const evidence = readEvidence(folder);
  const session = sp.session("orders");
  const latest = await session.latest();
  const { done } = /** @type {State} */ (latest?.state ?? { done: [] });
  const { problems, repeated, effects, interrupted, again, happened } = prove(evidence, folder, orders, done);
  if (latest?.status !== "completed") problems.push(`the session has the status ${latest?.status}`);
  const checkpoints = await session.history().all();

  const { think, charge, invoice, mail } = interrupted;
  const total = think + charge + invoice + mail;
  say(
    `${count(effects, "effect")} in ${count(orders + 1, "step")}, ${count(killed, "kill")}, ${count(total, "interrupted effect")}:`,
  );
  say(`  ${count(think, "model call")}: called again. ${count(mail, "mail")}: sent again with the same key`);
  say(`  ${count(invoice, "invoice")}: verified. ${count(charge, "charge")}: a person was asked`);
  say(`  ${again} executed again, ${happened} found to have happened`);
  if (problems.length === 0) {
    const written = `${count(orders, "charge")}, ${count(orders, "invoice")}, ${count(2 * orders, "mail")}`;
    say(`written exactly once each: ${written}; the state has the same`);
  }

  const costs = evidence.flatMap(({ what, cost }) => (what === "got" && cost !== undefined ? [cost] : []));
  const steps = evidence.flatMap(({ what, at }, index) => {
    const next = evidence[index + 1];
    return what === "stepDone" && next?.what === "step" ? [next.at - at] : [];
  });
  const size = await sp.bytes();
  const written = checkpoints.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  const average = Math.round(written / checkpoints.length);
  say(`overhead (median): ${median(costs).toFixed(1)} ms per effect, ${median(steps).toFixed(1)} ms per step`);
  say(`  ${count(checkpoints.length, "checkpoint")} of ${average} bytes on average`);
  say(`  ${Math.round(size / 1000)} kB on disk, ${Math.round(size / effects)} bytes per effect`);
  for (const problem of problems) say(`PROBLEM: ${problem}`);
  if (wanted !== undefined) await branchOff(session, checkpoints);
  say(`${repeated} recorded effects repeated`);
  return problems.length > 0 ? 1 : 0;
}

/**
 * Forks the middle of the history: the new branch has one more order to process.
 *
 * @param {import("savepoint").Session} session @param {import("savepoint").CheckpointInfo[]} checkpoints
 */
async function branchOff(session, checkpoints) {
  const past = checkpoints[checkpoints.length >> 1];
  if (!past) return;
  const { state } = (await session.load(past.id)) ?? {};
  const branch = await session.fork(past.id, {
    branch: "what-if",
    state: { .../** @type {State} */ (state), orders: orders + 1 },
  });
  say(`forked branch ${branch.branch} from step ${past.step}, with one more order`);
}

/** A number with its noun, such as "1 charge" or "2 charges". @param {number} number @param {string} noun */
function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** @param {number[]} numbers */
function median(numbers) {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

function readArguments() {
  try {
    const text = /** @type {const} */ ({ type: "string" });
    const { values } = parseArgs({ options: { seed: text, kills: text, folder: text, command: text } });
    const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
    const kills = Number(values.kills ?? 12);
    if (!Number.isSafeInteger(seed)) throw new Error(`--seed must be an integer, got ${values.seed}`);
    if (!Number.isSafeInteger(kills) || kills < 0)
      throw new Error(`--kills must be a non-negative integer, got ${values.kills}`);
    // The command that repeats the demo.
    return { seed, kills, folder: values.folder, command: values.command ?? "npm run demo --" };
  } catch (error) {
    console.error(
      `${/** @type {Error} */ (error).message}\nusage: npm run demo -- [--kills 12] [--seed 42] [--folder ./demo]`,
    );
    process.exit(2);
  }
}

/** A random number generator with values from 0 to 1 (mulberry32). @param {number} state */
function createRandom(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Shows a progress line on a terminal, which the next one overwrites. @param {string} line */
function progress(line) {
  if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${line}`);
}

function seconds() {
  return `${((performance.now() - started) / 1000).toFixed(1).padStart(5)} s`;
}

/** @param {string} line */
function say(line) {
  console.log(line);
}
