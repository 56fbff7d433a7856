// The agent of the crash tests. It has every kind of effect, and names each of them once in a session, so that the log says
// how often each was done. What it gets by chance is part of an argument: doing the step again must not change it.
import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent, isSavepointError } from "savepoint";

/** @import { EffectContext, EffectOptions, Run, Verdict } from "savepoint" */
/** @import { World } from "./world.mjs" */

/** @typedef {{ order: string }} Order */
/** @typedef {{ now: number, random: number, uuid: string }} Chance */
/**
 * @typedef {object} Desk
 * @property {string} order
 * @property {number} turn
 * @property {number[]} turns what the run said the turn was
 * @property {Record<string, string>} results
 * @property {string[]} arrivals the parallel tools, in the order in which the step got their results
 * @property {Chance | undefined} chance
 */

/** Effects in the order in which they are started: when one of a later line begins, all of the lines before are recorded. */
export const ORDER = [
  ["t1-plan"],
  ["t1-charge"],
  ["t1-note"],
  ["t1-think"],
  ["t1-ask", "t1-retry", "t1-verify", "t1-fail"],
  ["t1-beside"],
  ["t1-tally"],
  ["t1-doubt"],
  ["t1-ship"],
  ["t2-reply"],
  ["t2-file"],
  ["t3-reply"],
  ["t3-file"],
];

/** The policies of effects that are not simply retried after an interruption. @type {Record<string, string>} */
export const POLICIES = {
  "t1-charge": "ask",
  "t1-ask": "ask",
  "t1-verify": "verify",
  "t1-ship": "verify",
  "t1-fail": "fail",
};

/** Long enough, where it is long, to be stored once and referred to by the state. @param {string} name */
export function resultOf(name) {
  return name === "t1-charge" || name === "t1-think" ? `result of ${name} `.repeat(200) : `result of ${name}`;
}

/** @param {World} world */
export function createClerk(world) {
  /** The function behind an effect. @param {Run<Desk>} run @param {string} name @param {number} [takes] milliseconds @param {string} [seen] */
  const work = (run, name, takes = 0, seen = "") => {
    const id = `${run.session}/${run.branch}/${name}`;
    return async (/** @type {EffectContext} */ { idempotencyKey }) => {
      world.pass(`before ${id}`);
      world.note(`begin ${id} ${idempotencyKey} ${seen}`);
      world.pass(`begun ${id}`);
      if (takes > 0) await sleep(takes);
      world.note(`end ${id} ${idempotencyKey} ${seen}`);
      world.pass(`done ${id}`);
      return resultOf(name);
    };
  };

  /** @param {Run<Desk>} run @param {string} name */
  const llm = async (run, name) => {
    run.state.results[name] = await run.llm(work(run, name), { name, usage: () => ({ tokens: 10, cost: 1 }) });
  };

  /** @param {Run<Desk>} run @param {string} name @param {EffectOptions<string> & { takes?: number, args?: object }} [options] */
  const tool = async (run, name, { takes = 0, args = { name }, ...options } = {}) => {
    const seen = JSON.stringify(args);
    const result = await run.tool({ id: name, name, arguments: args }, work(run, name, takes, seen), options);
    run.state.results[name] = result;
  };

  /** @param {Run<Desk>} run @param {string} name @param {number} [takes] */
  const effect = async (run, name, takes = 0) => {
    run.state.results[name] = await run.effect(name, work(run, name, takes));
  };

  /** Reads from the log whether the effect happened. @param {Run<Desk>} run @param {string} name */
  const verify = (run, name) => {
    return (/** @type {EffectContext} */ { idempotencyKey }) => {
      const id = `${run.session}/${run.branch}/${name}`;
      world.note(`verify ${id} ${idempotencyKey}`);
      world.pass(`verify ${id}`);
      /** @type {Verdict<string>} */
      const verdict = world.happened(id) ? { happened: true, result: resultOf(name) } : { happened: false };
      return verdict;
    };
  };

  /** @param {Run<Desk>} run */
  const plan = async (run) => {
    run.state.chance = { now: run.now(), random: run.random(), uuid: run.uuid() };
    await llm(run, "t1-plan");
    await tool(run, "t1-charge");
    await effect(run, "t1-note");
  };

  /** @param {Run<Desk>} run */
  const act = async (run) => {
    await llm(run, "t1-think");
    /** @param {string} name @param {Promise<void>} done */
    const arrive = async (name, done) => {
      await done;
      run.state.arrivals.push(name);
    };
    const failing = tool(run, "t1-fail", { takes: 13, onUnknown: "fail" }).catch((error) => {
      if (!isSavepointError(error) && error.code !== "OUTCOME_UNKNOWN") throw error;
      run.state.results["t1-fail"] = error.code;
    });
    await Promise.all([
      arrive("t1-fail", failing),
      arrive("t1-ask", tool(run, "t1-ask", { takes: 5 })),
      arrive("t1-retry", tool(run, "t1-retry", { takes: 1, onUnknown: "retry" })),
      arrive("t1-verify", tool(run, "t1-verify", { takes: 9, onUnknown: "verify", verify: verify(run, "t1-verify") })),
    ]);
    await Promise.all([run.sleep(8), effect(run, "t1-beside", 1)]);
    await run.sleep(2);
    const { arrivals, chance } = run.state;
    await tool(run, "t1-tally", { args: { arrivals, chance, later: run.uuid() }, onUnknown: "retry" });
  };

  /** @param {Run<Desk>} run */
  const ship = async (run) => {
    await llm(run, "t1-doubt");
    run.state.results["answer"] = await run.ask("Ship it?");
    await tool(run, "t1-ship", { onUnknown: "verify", verify: verify(run, "t1-ship") });
    return run.complete(`shipped ${run.state.order}: ${run.state.results["answer"]}`);
  };

  return defineAgent({
    name: "clerk",
    initial: (/** @type {Order} */ { order }) => {
      /** @type {Desk} */
      const desk = { order, turn: 1, turns: [], results: {}, arrivals: [], chance: undefined };
      return desk;
    },
    receive: (desk, { order }) => {
      desk.order = order;
      desk.turn++;
    },
    async step(run) {
      const { turn, results } = run.state;
      run.state.turns.push(run.turn);
      if (turn === 1) {
        if (!("t1-note" in results)) return plan(run);
        if (!("t1-tally" in results)) return act(run);
        return ship(run);
      }
      await llm(run, `t${turn}-reply`);
      await effect(run, `t${turn}-file`);
      return run.complete(`filed ${run.state.order}`);
    },
  });
}
