// Serves a store over standard input and output: node serve.mjs <url> <options as JSON>
import { Savepoint } from "savepoint";
import { serveMcp } from "savepoint/mcp";

const [, , url, options = "{}"] = process.argv;
const ending = new AbortController();
process.once("SIGTERM", () => ending.abort());

const sp = await Savepoint.open(url);
await serveMcp(sp, { ...JSON.parse(options), signal: ending.signal });
await sp.close();
