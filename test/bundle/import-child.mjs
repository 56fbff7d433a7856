// Imports a bundle slowly, so that it can be killed in the middle: node import-child.mjs <url> <path> <bytes at once>
import { createReadStream, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Savepoint } from "savepoint";

const [, , url = "", path = "", size = "4096"] = process.argv;

async function* slowly() {
  let read = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: Number(size) })) {
    yield chunk;
    read += chunk.length;
    // Said once what was given has been taken.
    writeSync(1, `${read}\n`);
    await sleep(2);
  }
}

const sp = await Savepoint.open(url, { durability: "process" });
await sp.import(slowly());
await sp.close();
writeSync(1, "done\n");
