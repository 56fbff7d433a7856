// A process that opens a store at the same moment as others, and writes to it. Arguments: the file, a name, how often.
// It says "ready", waits for any input, and exits with 0 if all went well.
import { once } from "node:events";

const { openSqliteStore } = await import(new URL("../../dist/store.js", import.meta.url).href);
const { isSavepointError } = await import(new URL("../../dist/index.js", import.meta.url).href);

const [file, name, times] = process.argv.slice(2);
process.stdout.write("ready\n");
await once(process.stdin, "data");
process.stdin.destroy();

const store = await openSqliteStore(file);
for (let n = 0; n < Number(times);) {
  const [record] = await store.get(["count"]);
  try {
    await store.commit({
      checks: [{ key: "count", value: record?.value }],
      puts: [{ key: "count", value: String(Number(record?.value ?? 0) + 1) }],
      items: [{ tape: "t", counter: "next", items: [{ json: JSON.stringify([name, n]), refs: "" }] }],
    });
    n++;
  } catch (error) {
    if (!isSavepointError(error, "CONFLICT")) throw error;
  }
}
await store.close();
