// What recording costs: an effect, and a whole step, beside one row in bare SQLite; and how long a run takes to go on
// after an interruption, with few and with many steps behind it.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineAgent, Savepoint } from "savepoint";
import { openDatabase } from "./lib/inside.mjs";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";
import { interrupted } from "./runs-child.mjs";

const child = fileURLToPath(new URL("./runs-child.mjs", import.meta.url));

/** @typedef {"power" | "process"} Durability */

/** @param {string[]} args effects or steps in a round, rounds, and the steps that are resumed after */
export default async function runs(args) {
  const [count = 3000, rounds = 5, ...resumed] = args.map(Number);
  report("runs", [
    await recording(count, rounds),
    await resuming(rounds, resumed.length > 0 ? resumed : [10, 1000, 10_000]),
  ]);
}

/** @param {number} count @param {number} rounds */
async function recording(count, rounds) {
  const contenders = Object.fromEntries(
    /** @type {const} */ (["power", "process"]).flatMap((durability) => [
      [`SQLite INSERT of 100 bytes, ${durability}`, () => inFolder((folder) => insert(folder, count, durability))],
      [`one effect, ${durability}`, () => inFolder((folder) => effects(folder, count, durability))],
      [`a step with a model call, ${durability}`, () => inFolder((folder) => steps(folder, count, durability, false))],
      [
        `a step with a model call and a tool, ${durability}`,
        () => inFolder((folder) => steps(folder, count, durability, true)),
      ],
    ]),
  );
  const results = await inTurns(contenders, rounds);
  const middle = (/** @type {string} */ name) => median((results[name] ?? []).map(({ each }) => each));
  return {
    title: `Recording, ${count} times in a row`,
    head: ["", "each", "per second", "vs. INSERT", "bytes each"],
    rows: Object.keys(results).map((name) => {
      const floor = `SQLite INSERT of 100 bytes, ${name.endsWith("power") ? "power" : "process"}`;
      const size = median((results[name] ?? []).map((result) => result.bytes));
      return [
        name,
        ms(middle(name)),
        Math.round(1000 / middle(name)),
        ratio(middle(name) / middle(floor)),
        bytes(size),
      ];
    }),
    notes: [
      "Effects and model calls return 20 bytes, tools 100; the state keeps the last ten messages. A step with a model call is one commit, one with a tool (whose intent is written first) two.",
    ],
  };
}

/** @param {string} folder @param {number} count @param {Durability} durability */
async function insert(folder, count, durability) {
  const database = await openDatabase(join(folder, "raw.db"));
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${durability === "power" ? "FULL" : "NORMAL"}`);
  database.exec("CREATE TABLE effect (id INTEGER PRIMARY KEY, body BLOB)");
  const statement = database.prepare("INSERT INTO effect (body) VALUES (?)");
  const body = Buffer.alloc(100, "x");
  const spent = await timed(() => {
    for (let done = 0; done < count; done++) statement.run(body);
  });
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return { each: spent / count, bytes: sizeOf(folder) / count };
}

/** @param {string} folder @param {number} count @param {Durability} durability */
async function effects(folder, count, durability) {
  const agent = defineAgent({
    name: "effects",
    initial: () => ({}),
    async step(run) {
      for (let done = 0; done < count; done++) await run.effect("work", () => "done, as was wanted.");
      return run.complete();
    },
  });
  return measure(folder, agent, count, durability);
}

/** @param {string} folder @param {number} count @param {Durability} durability @param {boolean} withTool */
async function steps(folder, count, durability, withTool) {
  return measure(folder, worker(count, withTool), count, durability);
}

/** An agent that does so many steps on a state that stays small. @param {number} count @param {boolean} withTool */
function worker(count, withTool) {
  return defineAgent({
    name: "steps",
    loop: false,
    limits: { stepsPerTurn: Number.POSITIVE_INFINITY },
    initial: () => ({ done: 0, messages: /** @type {unknown[]} */ ([]) }),
    async step(run) {
      const { state } = run;
      if (state.done === count) return run.complete();
      state.messages.push({ role: "assistant", content: await run.llm(() => `reply ${state.done}, twenty.`) });
      if (withTool) {
        const call = { id: `call-${state.done}`, name: "look", arguments: { at: state.done } };
        state.messages.push({
          role: "tool",
          toolCallId: call.id,
          content: await run.tool(call, () => "y".repeat(100)),
        });
      }
      state.messages.splice(0, state.messages.length - 10);
      state.done++;
    },
  });
}

/**
 * @param {string} folder @param {import("savepoint").Agent<unknown, unknown, unknown>} agent @param {number} count
 * @param {Durability} durability
 */
async function measure(folder, agent, count, durability) {
  const sp = await Savepoint.open(`sqlite:${join(folder, "runs.db")}`, { durability });
  const spent = await timed(async () => {
    const { status } = await sp.run(agent, { session: "s", input: {} });
    if (status !== "completed") throw new Error(`It is ${status}.`);
  });
  await sp.close();
  return { each: spent / count, bytes: sizeOf(folder) / count };
}

/** @param {number} rounds @param {number[]} counts */
async function resuming(rounds, counts) {
  const results = await inTurns(
    Object.fromEntries(counts.map((count) => [String(count), () => inFolder((folder) => resume(folder, count))])),
    rounds,
  );
  const middle = (/** @type {string} */ name, /** @type {"open" | "resume"} */ part) =>
    median((results[name] ?? []).map((result) => result[part]));
  const first = String(counts[0]);
  return {
    title: "Resuming after kill -9, with a state of ten messages",
    head: [
      "steps done before",
      "opening the store",
      "from sp.run() to the work that was interrupted",
      "vs. the fewest",
    ],
    rows: counts
      .map(String)
      .map((name) => [
        name,
        ms(middle(name, "open")),
        ms(middle(name, "resume")),
        ratio(middle(name, "resume") / middle(first, "resume")),
      ]),
    notes: [
      "Taking the lease, reading the state and what the step has recorded, and running the step up to where it was.",
    ],
  };
}

/** @param {string} folder @param {number} count */
async function resume(folder, count) {
  const url = `sqlite:${join(folder, "resume.db")}`;
  const { signal, stderr } = spawnSync(process.execPath, [child, url, String(count)], { encoding: "utf8" });
  if (signal !== "SIGKILL") throw new Error(`The process was not killed: ${stderr}`);
  const opening = performance.now();
  const sp = await Savepoint.open(url);
  const start = performance.now();
  let reached = 0;
  const agent = interrupted(count, () => void (reached = performance.now()));
  await sp.run(agent, { session: "s", input: {} });
  await sp.close();
  return { open: start - opening, resume: reached - start };
}
