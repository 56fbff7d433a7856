// A process that is killed while a tool runs: node killed.mjs <store> <session>
// It prints "refunding" when the tool has started, and then waits to be killed.
import { Savepoint } from "savepoint";
import { hooks, KILLED, refunds } from "./agents.mjs";

const [url = "", session = ""] = process.argv.slice(2);
const sp = await Savepoint.open(url);
hooks.onRefund = () => {
  process.stdout.write("refunding\n");
  return new Promise(() => {
    setInterval(() => {}, 1000);
  });
};
await sp.run(refunds, { session, input: KILLED });
