/** Runs the clerk on a store, and prints a line where its parent is to kill it: `<url> <session> <model|tool>`. */
import { defineAgent, Savepoint } from "savepoint";
import { defineClerk, KILLED_AT } from "./clerk.mjs";

const [url = "", session = "", place = ""] = process.argv.slice(2);
const reach = (/** @type {string} */ where) => async (/** @type {number} */ n) => {
  if (where !== place || n !== 1) return;
  process.stdout.write("reached\n");
  await new Promise(() => setInterval(() => {}, 1000));
};
const clerk = defineClerk(defineAgent, { model: reach("model"), tool: reach("tool") });
const sp = await Savepoint.open(url, { durability: "process", now: () => KILLED_AT });
await sp.run(clerk, { session, input: { todo: 3 } });
