// What it costs to record: an effect, a save, a step of an agent, beside one bare INSERT and beside a step of DBOS, all on
// the same server; and how many statements each of them is.
import pg from "pg";
import { defineAgent, Savepoint } from "savepoint";
import { openPostgresStore } from "../lib/inside.mjs";
import { inSlices, WARM_UP } from "../lib/in-slices.mjs";
import { median, quantile } from "../lib/measure.mjs";
import { loadDbos } from "../lib/peers.mjs";
import { inSchema, walBytes } from "../lib/postgres-server.mjs";
import { bytes, ms, ratio } from "../lib/report.mjs";
import { message, seeded } from "../lib/states.mjs";
import { watchQueries } from "../lib/watch-queries.mjs";

/** @typedef {import("../lib/postgres-server.mjs").Server} Server */
/** @typedef {import("../lib/in-slices.mjs").Meter} Meter */
/** @typedef {(server: Server, meter: Meter) => Promise<void>} Contender */

const SMALL = "INSERT of 100 B";
const LARGE = "INSERT of 1 kB";
const EFFECT = "Savepoint, one effect";
const APPEND = "Savepoint, append of 1 kB";
const SAVE = "Savepoint, save of 1 kB more";
const DBOS_STEP = "DBOS, one step";

/** @type {Record<string, { run: Contender; floor: string }>} */
const CONTENDERS = {
  [SMALL]: { run: inserts(100, false), floor: SMALL },
  [`${SMALL}, prepared`]: { run: inserts(100, true), floor: SMALL },
  "Savepoint's store alone, an effect's commit": { run: commits, floor: SMALL },
  [EFFECT]: { run: effects, floor: SMALL },
  "Savepoint, one tool call": { run: tools, floor: SMALL },
  "Savepoint, a step with a model call": { run: steps(false), floor: SMALL },
  "Savepoint, a step with a model call and a tool": { run: steps(true), floor: SMALL },
  [DBOS_STEP]: { run: dbosSteps, floor: SMALL },
  [LARGE]: { run: inserts(1000, false), floor: LARGE },
  [`${LARGE}, prepared`]: { run: inserts(1000, true), floor: LARGE },
  [APPEND]: { run: appends, floor: LARGE },
  [SAVE]: { run: saves, floor: LARGE },
};

/** @param {Server} server @param {{ slices: number; length: number }} size */
export async function recording(server, { slices, length }) {
  const costs = await statements(server, Math.min(slices * length, 256));
  const results = await inSlices(
    Object.fromEntries(
      Object.entries(CONTENDERS).map(([name, { run }]) => [name, (/** @type {Meter} */ meter) => run(server, meter)]),
    ),
    slices,
    length,
  );
  const of = (/** @type {string} */ name) => results[name] ?? [];
  // Of the slices, each against the floor's of the same turn.
  const share = (/** @type {string} */ name, /** @type {string} */ floor) =>
    median(of(floor).map((time, slice) => time / (of(name)[slice] ?? Number.NaN)));
  const { version } = await loadDbos();
  return {
    tables: [
      {
        title: `Recording, one after another: ${slices} slices of ${length}, in turns`,
        head: ["", "each (p10–p90)", "per second", "rate vs. INSERT", "rate vs. DBOS", "statements", "server's log"],
        rows: Object.entries(CONTENDERS).map(([name, { floor }]) => [
          name,
          `${ms(median(of(name)))} (${quantile(of(name), 0.1).toFixed(2)}–${quantile(of(name), 0.9).toFixed(2)})`,
          Math.round(1000 / median(of(name))),
          ratio(share(name, floor)),
          floor === SMALL ? ratio(share(name, DBOS_STEP)) : "–",
          (costs[name]?.statements ?? 0).toFixed(2),
          bytes(costs[name]?.wal ?? 0),
        ]),
        notes: [
          `A bare INSERT is one statement with one parameter in a transaction of its own; the server waits for its disk. Effects and model calls return 20 bytes, tools and the steps of DBOS Transact ${version} 100. Ratios are medians of those of the slices.`,
          "Statements and bytes of the server's log are those of one, with the packing of what was written, and with what DBOS asks in the background.",
        ],
      },
    ],
    figures: {
      effect: share(EFFECT, SMALL),
      effectVsDbos: share(EFFECT, DBOS_STEP),
      save: share(SAVE, LARGE),
      append: share(APPEND, LARGE),
      ...Object.fromEntries(
        [SMALL, EFFECT, DBOS_STEP, LARGE, APPEND, SAVE].map((name) => [`rate: ${name}`, 1000 / median(of(name))]),
      ),
    },
  };
}

/** Statements and bytes of the server's log of one. @param {Server} server @param {number} count */
async function statements(server, count) {
  /** @type {Record<string, { statements: number; wal: number }>} */
  const costs = {};
  const { pg: theirs } = await loadDbos();
  for (const [name, { run }] of Object.entries(CONTENDERS)) {
    process.stderr.write(`counting: ${name}\n`);
    const watched = watchQueries(name === DBOS_STEP ? theirs : pg);
    let [seen, wal] = [0, 0];
    const start = async () => {
      wal = await walBytes(server);
      watched.take();
    };
    await run(server, {
      total: WARM_UP + count,
      before: (index) => (index === WARM_UP ? start() : undefined),
      async end() {
        seen = watched.take().statements;
        wal = (await walBytes(server)) - wal;
      },
    });
    watched.stop();
    costs[name] = { statements: seen / count, wal: wal / count };
  }
  return costs;
}

/** @param {Meter} meter @param {(index: number) => unknown} work */
async function repeat(meter, work) {
  for (let index = 0; index < meter.total; index++) {
    const turn = meter.before(index);
    if (turn) await turn;
    await work(index);
  }
  await meter.end();
}

/** @param {number} length @param {boolean} prepared @returns {Contender} */
function inserts(length, prepared) {
  return (server, meter) =>
    inSchema(server, async (_, schema) => {
      await server.query(`CREATE SCHEMA ${schema}`);
      await server.query(`CREATE TABLE ${schema}.effect (id bigserial PRIMARY KEY, body bytea NOT NULL)`);
      const client = new pg.Client({ connectionString: server.url });
      await client.connect();
      const text = `INSERT INTO ${schema}.effect (body) VALUES ($1)`;
      const values = [Buffer.alloc(length, "x")];
      const statement = prepared ? { name: "insert", text, values } : { text, values };
      await repeat(meter, () => client.query(statement));
      await client.end();
    });
}

/** What the commit of an effect is, without all that is above the store. @type {Contender} */
function commits(server, meter) {
  return inSchema(server, async (url) => {
    const store = await openPostgresStore(url);
    const record = (/** @type {number} */ index) => `[0,1,1,0,${index},0,0,0]`;
    const key = "r\ts\tmain\tj";
    await store.commit({ puts: [{ key, value: record(0) }] });
    const json = `{"m":0,"o":"e","i":3,"k":"effect","n":"work","t":1794884588772,"d":3,"v":"done, as was wanted."}`;
    await repeat(meter, (index) =>
      store.commit({
        checks: [{ key, value: record(index) }],
        puts: [{ key, value: record(index + 1) }],
        items: [{ tape: "1011", first: index, items: [{ json, refs: "" }] }],
      }),
    );
    await store.close();
  });
}

/** @type {Contender} */
function effects(server, meter) {
  return inOneStep(server, (run) => repeat(meter, () => run.effect("work", () => "done, as was wanted.")));
}

/** @type {Contender} */
function tools(server, meter) {
  return inOneStep(server, (run) =>
    repeat(meter, (index) =>
      run.tool({ id: `call-${index}`, name: "look", arguments: { at: index } }, () => "y".repeat(100)),
    ),
  );
}

/** @param {Server} server @param {(run: import("savepoint").Run<any>) => Promise<void>} work */
function inOneStep(server, work) {
  const agent = defineAgent({
    name: "one-step",
    loop: false,
    limits: { stepsPerTurn: Number.POSITIVE_INFINITY },
    initial: () => ({}),
    async step(run) {
      await work(run);
      return run.complete();
    },
  });
  return toItsEnd(server, agent);
}

/** Steps of an agent on a state that stays small. @param {boolean} withTool @returns {Contender} */
function steps(withTool) {
  return (server, meter) => {
    const agent = defineAgent({
      name: "steps",
      loop: false,
      limits: { stepsPerTurn: Number.POSITIVE_INFINITY },
      initial: () => ({ done: 0, messages: /** @type {unknown[]} */ ([]) }),
      async step(run) {
        const { state } = run;
        if (state.done === meter.total) {
          await meter.end();
          return run.complete();
        }
        await meter.before(state.done);
        state.messages.push({ role: "assistant", content: await run.llm(() => `reply ${state.done}, twenty.`) });
        if (withTool) {
          const call = { id: `call-${state.done}`, name: "look", arguments: { at: state.done } };
          const content = await run.tool(call, () => "y".repeat(100));
          state.messages.push({ role: "tool", toolCallId: call.id, content });
        }
        state.messages.splice(0, state.messages.length - 10);
        state.done++;
        return undefined;
      },
    });
    return toItsEnd(server, agent);
  };
}

/** @param {Server} server @param {import("savepoint").Agent<any, any, any>} agent */
function toItsEnd(server, agent) {
  return inSchema(server, async (url) => {
    const sp = await Savepoint.open(url);
    const { status } = await sp.run(agent, { session: "s", input: {} });
    await sp.close();
    if (status !== "completed") throw new Error(`It is ${status}.`);
  });
}

/** @type {Contender} */
function appends(server, meter) {
  return inSchema(server, async (url) => {
    const sp = await Savepoint.open(url);
    const random = seeded(1);
    const session = sp.session("thread");
    await session.save({ messages: [] });
    await repeat(meter, (index) => session.append("/messages", [message(random, index)]));
    await sp.close();
  });
}

/** The last 100 messages are kept, so that it is not the size of the state that is measured. @type {Contender} */
function saves(server, meter) {
  return inSchema(server, async (url) => {
    const sp = await Savepoint.open(url);
    const random = seeded(1);
    const session = sp.session("thread");
    const state = { messages: /** @type {unknown[]} */ ([]) };
    await repeat(meter, (index) => {
      state.messages.push(message(random, index));
      if (state.messages.length > 100) state.messages.shift();
      return session.save(state);
    });
    await sp.close();
  });
}

/** @type {Contender} */
async function dbosSteps(server, meter) {
  const { DBOS } = await loadDbos();
  metered = meter;
  await inSchema(server, async (_, schema) => {
    DBOS.setConfig({
      name: "bench",
      systemDatabaseUrl: server.url,
      systemDatabaseSchemaName: schema,
      logLevel: "error",
    });
    workflow ??= DBOS.registerWorkflow(
      () =>
        repeat(/** @type {Meter} */ (metered), () =>
          DBOS.runStep(() => Promise.resolve("y".repeat(100)), { name: "work" }),
        ),
      { name: "steps" },
    );
    await DBOS.launch();
    await workflow?.();
    await DBOS.shutdown();
  });
}

/** @type {(() => Promise<void>) | undefined} what DBOS runs: it knows it by its name, and only once */
let workflow;
/** @type {Meter | undefined} */
let metered;
