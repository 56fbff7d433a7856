// The scenario of the crash tests: three turns and a fork. Because inputs have keys, the next process can repeat all of it
// from the beginning after a crash.
import { setTimeout as sleep } from "node:timers/promises";
import { Savepoint } from "savepoint";
import { encryptionOf } from "../support/crash-keys.mjs";
import { withTestHooks } from "../support/test-hooks.mjs";
import { createClerk, resultOf } from "./clerk.mjs";
import { World } from "./world.mjs";

/** @import { Agent, Checkpoint, Question, Session } from "savepoint" */
/** @import { Desk, Order } from "./clerk.mjs" */
/** @import { Death } from "./world.mjs" */

/** @typedef {{ output: string, state: Desk, tokens: number, cost: number, steps: number }} Done */

/**
 * @typedef {object} Outcome
 * @property {Done[]} turns
 * @property {Done} fork
 * @property {string[]} inherited what the fork had when it was made
 * @property {number} left runs that are left to recover, which should be none
 * @property {[string, number][]} passed points, and how often each was passed
 */

const SESSION = "job";
const FORK = "what-if";

/**
 * Opens the store with every point of its writes on the way to death.
 *
 * @param {World} world
 */
export function openStore(world) {
  const options = {
    // The test server does not wait for its disk, which would be reported at each opening.
    ...(world.url.startsWith("postgres:") && { durability: /** @type {const} */ ("process") }),
    on: {
      damage: (/** @type {{ reason: string }} */ { reason }) => world.note(`damage ${reason}`),
      backgroundFailure: (/** @type {{ message: string, error: unknown }} */ { message, error }) =>
        world.note(`damage ${message}: ${String(error)}`),
    },
  };
  return Savepoint.open(
    world.url,
    withTestHooks({ probe: (point) => world.pass(point) }, { ...encryptionOf(), ...options }),
  );
}

/** The answer of a user who has checked whether the effect happened. @param {World} world @param {string} session @param {string} branch @param {Question} question */
export function answerTo(world, session, branch, question) {
  if (question.kind === "ask") return "yes";
  const name = question.call?.id ?? "";
  const id = `${session}/${branch}/${name}`;
  const happened = world.happened(id);
  world.note(`asked ${id}`);
  return happened ? { happened, result: resultOf(name) } : { happened };
}

/** Resumes runs until there is none left to resume. @param {Savepoint} sp @param {Agent<Order, Desk, string>} clerk */
export async function recoverAll(sp, clerk) {
  for (;;) {
    const handles = await sp.recover([/** @type {Agent} */ (clerk)]);
    if (handles.length === 0) return;
    await Promise.all(handles.map((handle) => handle.result()));
  }
}

/**
 * Plays the scenario, or the rest of it after a crash.
 *
 * @param {string} folder @param {"run" | "recover"} by @param {Death} [death] @returns {Promise<Outcome>}
 */
export async function playScenario(folder, by, death) {
  const world = new World(folder, death);
  const clerk = createClerk(world);
  const sp = await openStore(world);
  /** @param {string} order @param {string} branch @returns {Promise<Done>} */
  const runToEnd = async (order, branch) => {
    for (;;) {
      const result = await sp.run(clerk, { session: SESSION, branch, input: { order }, key: order });
      if (result.status === "completed") {
        const { output, state, usage, steps } = result;
        return { output, state, ...usage, steps };
      }
      if (result.status !== "waiting") throw new Error(`${branch}: ${result.status}, ${result.reason}`);
      const { question, wakeAt } = result;
      if (question) {
        if (question.kind === "ask" && branch === "main") await sp.send(SESSION, { order: "two" }, { key: "two" });
        const value = answerTo(world, SESSION, branch, question);
        await sp.answer(SESSION, value, { question: question.id, branch });
      } else if (wakeAt !== undefined) await sleep(Math.max(0, wakeAt - Date.now()));
      else throw new Error(`${branch} waits for nothing`);
    }
  };
  if (by === "recover") await recoverAll(sp, clerk);
  const turns = [];
  for (const order of ["one", "two", "three"]) turns.push(await runToEnd(order, "main"));
  const inherited = await forkOnce(sp.session(SESSION));
  const fork = await runToEnd("one", FORK);
  const left = (await sp.recover([/** @type {Agent} */ (clerk)])).length;
  await sp.close();
  return { turns, fork, inherited, left, passed: [...world.passed] };
}

/** Forks a checkpoint that was taken in the middle of a step. Returns the effects that were done by then. @param {Session<Desk>} session */
async function forkOnce(session) {
  const history = await session.history({ order: "oldest" }).all();
  /** @type {Checkpoint<Desk>[]} */
  const checkpoints = [];
  for (const { id, status } of history) {
    const checkpoint = status === "running" ? await session.load(id) : undefined;
    if (checkpoint) checkpoints.push(checkpoint);
  }
  // After a crash the preferred checkpoint may not exist; then an earlier one does.
  const wanted = [
    ["t1-verify", "t1-tally"],
    ["t1-charge", "t1-note"],
  ].flatMap(([has, hasNot]) =>
    checkpoints.filter(({ state }) => `${has}` in state.results && !(`${hasNot}` in state.results)),
  );
  const from = wanted[0] ?? checkpoints[0];
  if (!from) throw new Error("There is nothing to fork");
  const branches = await session.branches().all();
  if (!branches.some(({ name }) => name === FORK)) await session.fork(from.id, { branch: FORK });
  return Object.keys(from.state.results);
}
