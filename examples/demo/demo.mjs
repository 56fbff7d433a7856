// An agent is killed by SIGKILL at random moments, a dozen times, and started again each time. In the end the log that its
// effects have written proves what was done how often.
//
//   npm run demo -- --kills 12 --seed 42
//
// The seed repeats when the kills are meant to happen; what exactly they hit is up to the machine.
//
// Exit code 0: all promises kept. 1: one was broken. 2: wrong arguments.
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
/** @typedef {{ begins: number; delay: number }} Plan when to kill: so long after so many effects have begun */

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
      say(`the worker ended with ${ended}\n${end.errors}`);
      return 1;
    }
    const evidence = readEvidence(folder);
    say(describe(life, evidence.slice(0, from), evidence.slice(from), killed));
  }
  return conclude(killed);
}

/** One life of the worker: until it is killed, waits for an answer, or is done. @param {Plan | undefined} plan @param {number} killed */
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
    progress(`${seconds()}  ${killed} of ${kills} kills, ${effect} of ${orders}`);
    if (++begins === plan?.begins) kill();
  });
  child.stderr?.on("data", (data) => (errors += data));
  const [code, signal] = await new Promise((resolve) => child.on("close", (...how) => resolve(how)));
  worker = undefined;
  progress("");
  if (signal === "SIGKILL") return { ended: "killed", errors };
  return { ended: code === 0 ? (readEvidence(folder).at(-1)?.what ?? "") : `exit code ${code}`, errors };
}

/** In the middle of an effect, between two, or while the process starts. @returns {Plan} */
function makePlan() {
  if (random() < 1 / 6) return { begins: 0, delay: 20 + random() * 250 };
  return { begins: 1 + Math.floor(random() * 7), delay: random() * 24 };
}

/** What the store has of the work, while nobody works on it. */
async function inspect() {
  const journal = /** @type {string[]} */ ([]);
  const latest = await sp.session("orders").latest();
  if (!latest) return { journal, done: 0 };
  for await (const event of sp.watch("orders")) {
    // How it stands is told last, when everything that is stored has been.
    if (event.type === "status") break;
    if (event.type === "effect" && event.phase === "end") journal.push(event.callId ?? event.name);
  }
  return { journal, done: /** @type {State} */ (latest.state).done.length };
}

/** @param {number} kill @param {{ journal: string[]; done: number }} stored */
function noteKill(kill, stored) {
  note({ what: "kill", kill, ...stored });
}

/** The person who is asked whether a charge went through: looks into the ledger. */
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
 * A life in one line.
 *
 * @param {number} life @param {Line[]} before @param {Line[]} lines @param {number} killed
 */
function describe(life, before, lines, killed) {
  const parts = lines.flatMap(({ what, effect = "", found }) => {
    const again = before.some((line) => line.what === "begin" && line.effect === effect);
    if (what === "look") return [`${effect} ${found ? "verified: it is there" : "verified: missing"}`];
    if (what === "answer") return [`${effect}: a person ${found ? "finds it happened" : "finds it did not happen"}`];
    const known = again && lines.some((line) => line.what === "known" && line.effect === effect);
    if (what === "begin") return [known ? `${effect} again, known by its key` : again ? `${effect} again` : effect];
    return [];
  });
  const kill = lines.find(({ what }) => what === "kill");
  const first = life > 1 ? "resumes" : "starts";
  const did = shorten(parts) || first;
  if (!kill) return `${seconds()}  #${life}  ${did}${lines.at(-1)?.what === "completed" ? "  DONE" : ""}`;
  const stored = new Set(kill.journal);
  const open = lines.flatMap(({ what, effect = "" }) => (what === "begin" && !stored.has(effect) ? [effect] : []));
  const inside = open.filter((effect) => Number.parseInt(effect.split(" ")[1] ?? "") > (kill.done ?? 0));
  const where = inside.length > 0 ? `inside ${inside.join(", ")}` : parts.length > 0 ? "between effects" : "early";
  return `${seconds()}  #${life}  ${did}  KILL ${killed} ${where}`;
}

/** @param {string[]} parts */
function shorten(parts) {
  return parts.length > 7
    ? [...parts.slice(0, 3), `… ${parts.length - 5} …`, ...parts.slice(-2)].join(", ")
    : parts.join(", ");
}

/** @param {number} killed */
async function conclude(killed) {
  const evidence = readEvidence(folder);
  const session = sp.session("orders");
  const latest = await session.latest();
  const { done } = /** @type {State} */ (latest?.state ?? { done: [] });
  const { problems, repeated, effects, interrupted, again, happened } = prove(evidence, folder, orders, done);
  if (latest?.status !== "completed") problems.push(`the session is ${latest?.status}`);
  const checkpoints = await session.history().all();

  const { think, charge, invoice, mail } = interrupted;
  say(
    `${effects} effects in ${orders + 1} steps, ${killed} kills; ${think + charge + invoice + mail} effects were interrupted:`,
  );
  say(`  ${think} model calls: asked again. ${mail} mails: sent again, with the same key`);
  say(`  ${invoice} invoices: looked for. ${charge} charges: a person was asked`);
  say(`  ${again} were done again, ${happened} were found to have happened`);
  if (problems.length === 0) {
    say(
      `in the world are ${orders} charges, ${orders} invoices and ${2 * orders} mails, each once; in the state as well`,
    );
  }

  const costs = evidence.flatMap(({ what, cost }) => (what === "got" && cost !== undefined ? [cost] : []));
  const steps = evidence.flatMap(({ what, at }, index) => {
    const next = evidence[index + 1];
    return what === "stepDone" && next?.what === "step" ? [next.at - at] : [];
  });
  const size = await sp.bytes();
  const written = checkpoints.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  say(
    `cost: ${median(costs).toFixed(1)} ms an effect beside its own work, ${median(steps).toFixed(1)} ms a step; ${Math.round(written / checkpoints.length)} bytes a checkpoint (${checkpoints.length}), ${Math.round(size / 1000)} kB on disk in all, ${Math.round(size / effects)} bytes an effect`,
  );
  for (const problem of problems) say(`BROKEN: ${problem}`);
  if (wanted !== undefined) await branchOff(session, checkpoints);
  say(`${repeated} recorded effects repeated`);
  return problems.length > 0 ? 1 : 0;
}

/**
 * Any past moment can be tried differently: leaves a branch that another order begins.
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
  say(`and a branch, ${branch.branch}, that goes on from step ${past.step} with one order more`);
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
    if (!Number.isSafeInteger(seed)) throw new Error(`--seed takes a whole number, not ${values.seed}`);
    if (!Number.isSafeInteger(kills) || kills < 0) throw new Error(`--kills takes a number, not ${values.kills}`);
    // How whoever has started it starts it again.
    return { seed, kills, folder: values.folder, command: values.command ?? "npm run demo --" };
  } catch (error) {
    console.error(
      `${/** @type {Error} */ (error).message}\nusage: npm run demo -- [--kills 12] [--seed 42] [--folder ./demo]`,
    );
    process.exit(2);
  }
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). @param {number} state */
function createRandom(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A line that is written over, for people who watch. @param {string} line */
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
