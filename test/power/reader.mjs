// Prints which of the acknowledged saves are missing or not intact, as a JSON list.
import { Savepoint } from "savepoint";
import { stateOf } from "./writer.mjs";

const [, , path = "", json = ""] = process.argv;
/** @type {string[]} */
const lost = [];
const sp = await Savepoint.open(path, { on: { damage: () => {} } });
for (const [id, step] of /** @type {[string, number][]} */ (JSON.parse(json))) {
  const session = sp.session(id);
  const latest = await session.latest().catch((/** @type {Error} */ error) => error);
  if (!latest || latest instanceof Error || latest.step < step) {
    lost.push(`${id} at step ${step}, found ${latest instanceof Error ? latest.message : latest?.step}`);
    continue;
  }
  for (const at of [step, step >> 1, 0]) {
    const found = await session.load({ step: at });
    if (JSON.stringify(found?.state) !== JSON.stringify(stateOf(id, at))) lost.push(`${id} at step ${at}`);
  }
}
await sp.close();
console.log(JSON.stringify(lost));
