// Puts into one namespace without any pause, and prints a dot after each put: node unpaused-writer.mjs <url> <name>
import { writeSync } from "node:fs";
import { Savepoint } from "savepoint";
import { SavepointStore } from "savepoint/langgraph";

const [url = "", name = ""] = process.argv.slice(2);
const sp = await Savepoint.open(url, { durability: "process" });
const store = new SavepointStore(sp);
for (let n = 0; ; n++) {
  await store.put(["shared"], `${name}-${n % 100}`, { n, text: "x".repeat(n % 200) });
  writeSync(1, ".");
}
