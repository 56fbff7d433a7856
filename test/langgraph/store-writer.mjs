// Puts items without end, and prints each one after it is acknowledged: node store-writer.mjs <url> <name>
// A parent kills it at any moment.
import { writeSync } from "node:fs";
import { Savepoint } from "savepoint";
import { SavepointStore } from "savepoint/langgraph";

const [url = "", name = ""] = process.argv.slice(2);
const sp = await Savepoint.open(url, { durability: "process" });
const store = new SavepointStore(sp);
/** @param {number} writer */
const work = async (writer) => {
  for (let n = 0; ; n++) {
    const key = `${name}-${writer}-${n}`;
    // Most share a namespace with the other processes.
    const namespace = n % 3 === 0 ? ["own", `${name}-${writer}`] : ["shared"];
    await store.put(namespace, key, { n, text: "x".repeat(n % 200) });
    writeSync(1, `${JSON.stringify({ namespace, key, n })}\n`);
  }
};
await Promise.all([work(0), work(1), work(2)]);
