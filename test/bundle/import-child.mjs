// Imports a bundle, and blocks when it has read a number of bytes, to be killed there:
// node import-child.mjs <url> <path> <bytes at once> <stop at>
import { createReadStream, writeSync } from "node:fs";
import { Savepoint } from "savepoint";

const [, , url = "", path = "", size = "4096", stopAt = "Infinity"] = process.argv;

async function* readSlowly() {
  let read = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: Number(size) })) {
    yield chunk;
    // What was given has been taken.
    read += chunk.length;
    if (read < Number(stopAt)) continue;
    writeSync(1, "stopped\n");
    await new Promise((resolve) => setTimeout(resolve, 2 ** 30));
  }
}

const sp = await Savepoint.open(url, { durability: "process" });
await sp.import(readSlowly());
await sp.close();
writeSync(1, "done\n");
