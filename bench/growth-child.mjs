// One contender of growth.mjs in a process of its own.
import { CONTENDERS } from "./growth.mjs";
import { input } from "./lib/child.mjs";

const { name, folder, steps } = /** @type {{ name: string; folder: string; steps: number }} */ (input());
const run = CONTENDERS[name];
if (!run) throw new Error(`There is no contender ${name}.`);
console.log(JSON.stringify(await run(folder, steps)));
