/** Takes one backup after another, until it is killed. */
import { Savepoint } from "savepoint";

const [url, to = ""] = process.argv.slice(2);
const sp = await Savepoint.open(url);
console.log("ready");
for (;;) await sp.backup({ to, keep: 3 });
