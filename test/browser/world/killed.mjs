// A process that is killed while a tool runs: node killed.mjs <store> <session>
// It prints "refunding" when the tool has started, and then waits to be killed.
import { Savepoint } from "savepoint";
import { hooks, refunds } from "./agents.mjs";

const [url = "", session = ""] = process.argv.slice(2);
const sp = await Savepoint.open(url, { on: { crash: () => {}, unfinished: () => {} } });
hooks.onRefund = () => {
  process.stdout.write("refunding\n");
  return new Promise(() => {
    setInterval(() => {}, 1000);
  });
};
await sp.run(refunds, {
  session,
  input: { order: "1044", customer: "Grace Okafor", amount: 129.5, reason: "The bench arrived with a broken leg. I'd like my money back for order 1044." },
});
