// A process that does so many steps and kills itself in the next one, or that goes on where such a process was: see
// resuming.mjs.
import pg from "pg";
import { Savepoint } from "savepoint";
import { input } from "../lib/child.mjs";
import { loadDbos } from "../lib/peers.mjs";
import { watchQueries } from "../lib/watch-queries.mjs";
import { interrupted } from "../runs-child.mjs";

const { who, what, url, schema, steps } =
  /** @type {Record<"who" | "what" | "url" | "schema", string> & { steps: number }} */ (input());
const dies = what === "die";
const { DBOS, pg: theirs } = await loadDbos();
const watched = watchQueries(who === "dbos" ? theirs : pg);
let [start, opened] = [0, 0];
await (who === "dbos" ? dbos() : savepoint());

/** Where the step is that was interrupted. */
function reached() {
  if (dies) process.kill(process.pid, "SIGKILL");
  const now = performance.now();
  // DBOS gets there while it is launched, or after it.
  const open = (opened || now) - start;
  console.log(JSON.stringify({ open, resume: now - start - open, ...watched.take() }));
}

async function savepoint() {
  watched.take();
  start = performance.now();
  const sp = await Savepoint.open(url, { durability: dies ? "process" : "power" });
  opened = performance.now();
  await sp.run(interrupted(steps, reached), { session: "s", input: {} });
  await sp.close();
}

async function dbos() {
  const name = "interrupted";
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, systemDatabaseSchemaName: schema, logLevel: "error" });
  const workflow = DBOS.registerWorkflow(
    async () => {
      for (let done = 0; done < steps; done++) {
        await DBOS.runStep(() => Promise.resolve(`reply ${done}, twenty.`), { name: "reply" });
      }
      await DBOS.runStep(() => Promise.resolve(reached()), { name });
    },
    { name },
  );
  watched.take();
  start = performance.now();
  await DBOS.launch();
  opened = performance.now();
  // What was interrupted is gone on with by itself.
  const handle = dies ? await DBOS.startWorkflow(workflow, { workflowID: "w" })() : DBOS.retrieveWorkflow("w");
  await handle.getResult();
  await DBOS.shutdown();
}
