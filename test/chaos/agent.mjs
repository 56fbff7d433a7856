/** The agent of the sessions: each step draws something, hands it to a tool, and keeps what both have said. */
import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent } from "savepoint";
import { monotonic } from "./world.mjs";

/** @import { Agent } from "savepoint" */
/** @import { Done, World } from "./world.mjs" */

export const STEPS = 50;
/** Steps with these numbers sleep before they end: the session waits, and any worker resumes it. */
export const isSleepy = (/** @type {number} */ step) => step % 16 === 5;
/** What is done when the outcome of a tool is unknown. */
export const TOOLS = /** @type {const} */ (["retry", "verify"]);

/** @typedef {{ done: Done[] }} State */

/** @param {World} world @param {() => number} random @returns {Agent<{ n: number }, State, number>} */
export function createWorkhorse(world, random) {
  /** @param {string} session @param {number} step @param {string} what @param {string} key @param {string} [drawn] */
  const act = async (session, step, what, key, drawn) => {
    const begun = monotonic();
    // Sometimes it is killed before, and sometimes after it was done.
    await sleep(random() * 80);
    const token = world.do(session, { begun, step, what, key, ...(drawn !== undefined && { drawn }) });
    await sleep(random() * 80);
    return token;
  };
  return defineAgent({
    name: "workhorse",
    strategy: "everyStep",
    initial: () => /** @type {State} */ ({ done: [] }),
    async step(run) {
      const { session, step, state } = run;
      // The state that the step begins with is saved, no matter which process saved it.
      const last = state.done.at(-1);
      if (last) world.note({ session, what: "seen", step: step - 1, done: last });
      const drawn = await run.effect("draw", ({ idempotencyKey }) => act(session, step, "draw", idempotencyKey));
      const onUnknown = TOOLS[step % TOOLS.length];
      const call = { id: `call-${step}`, name: onUnknown ?? "retry", arguments: { drawn } };
      const written = await run.tool(
        call,
        ({ idempotencyKey }) => act(session, step, call.name, idempotencyKey, drawn),
        onUnknown === "verify"
          ? { onUnknown, verify: ({ idempotencyKey }) => ask(world, session, idempotencyKey) }
          : { onUnknown: "retry" },
      );
      if (isSleepy(step)) await run.sleep(200);
      state.done.push({ step, drawn, written });
      return step >= STEPS ? run.complete(state.done.length) : undefined;
    },
  });
}

/** Was it done? @param {World} world @param {string} session @param {string} key */
function ask(world, session, key) {
  const deed = world.done(session).find((each) => each.key === key && each.what === "verify");
  return deed
    ? { happened: /** @type {const} */ (true), result: deed.token }
    : { happened: /** @type {const} */ (false) };
}
