// Works on a store and reports on standard output: node victim.mjs <hold|close|runs> <url> [<session>]
// `hold` and `runs` wait to be killed, `close` exits cleanly.
import { until } from "../support/until.mjs";
import { writeSync } from "node:fs";
import { defineAgent, Savepoint } from "savepoint";

const [, , work, url, id = "s"] = process.argv;
const sp = await Savepoint.open(url);

/** Four checkpoints: 20 messages, and one more each time. */
async function save() {
  const session = sp.session(id);
  const text = (/** @type {number} */ n) => ({ role: "user", content: `message ${n} `.repeat(20) });
  const ids = [(await session.save({ messages: Array.from({ length: 20 }, (_, n) => text(n)) })).id];
  for (let n = 20; n < 23; n++) ids.push((await session.append("/messages", [text(n)])).id);
  return ids;
}

/** Three runs hang in their second step, a fourth completes. */
async function run() {
  let hanging = 0;
  const counter = defineAgent({
    name: "counter",
    initial: (/** @type {string} */ _input) => ({ n: 0 }),
    async step(run) {
      const n = run.state.n + 1;
      const hang = () => {
        hanging++;
        return new Promise(() => {});
      };
      const hangs = n === 2 && run.session !== "done";
      await run.llm(() => ({ usage: { inputTokens: 6, outputTokens: 4, cost: 0.125 } }));
      await run.tool({ id: `c${n}`, name: "count" }, () => (hangs ? hang() : undefined), { onUnknown: "retry" });
      run.state.n = n;
      return n === 3 ? run.complete(n) : undefined;
    },
  });
  await sp.run(counter, { session: "done", input: "go" });
  for (const session of ["one", "two", "three"]) await sp.start(counter, { session, input: "go" });
  await until(() => hanging === 3, "all three sessions to hang");
}

const ids = work === "runs" ? (await run(), []) : await save();
if (work === "close") await sp.close();
writeSync(1, `${JSON.stringify({ ids })}\n`);
if (work !== "close") setInterval(() => {}, 1000);
