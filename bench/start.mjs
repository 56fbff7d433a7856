// How long the command line takes until it prints something, beside the start and end of Node itself.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Savepoint } from "savepoint";
import { inFolder, median, quantile } from "./lib/measure.mjs";
import { ms, ratio, report } from "./lib/report.mjs";

const PROGRAM = fileURLToPath(new URL("../dist/bin/savepoint.js", import.meta.url));
const LIBRARY = new URL("../dist/index.js", import.meta.url).href;
const FLOOR = "node -e 0";

/** @param {string[]} args rounds, and checkpoints of the session that is listed */
export default async function start(args) {
  const [rounds = 41, checkpoints = 1000] = args.map(Number);
  await inFolder(async (folder) => {
    const sqlite = await fill(`sqlite:${join(folder, "s.db")}`, checkpoints);
    const file = await fill(`file:${join(folder, "s")}`, checkpoints);
    /** @type {Record<string, string[]>} */
    const contenders = {
      [FLOOR]: ["-e", "0"],
      'import "savepoint"': ["--input-type=module", "-e", `import ${JSON.stringify(LIBRARY)}`],
      "savepoint --help": [PROGRAM, "--help"],
      "savepoint log": [PROGRAM, "log", "--store", sqlite],
      "savepoint log order-88 --graph": [PROGRAM, "log", "order-88", "--graph", "--store", sqlite],
      "savepoint log, plain files": [PROGRAM, "log", "--store", file],
    };
    /** @type {Record<string, number[]>} */
    const times = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]));
    // One after the other, so that a machine that becomes slower does so for all; the first round only warms the disk.
    for (let round = -1; round < rounds; round++) {
      for (const [name, typed] of Object.entries(contenders)) {
        const time = await firstOutput(typed);
        if (round >= 0) times[name]?.push(time);
      }
    }
    const floor = median(times[FLOOR] ?? []);
    const tables = [
      {
        title: `From the start of the process to its first output (${checkpoints} checkpoints, ${rounds} times each)`,
        head: ["", "p50", "p10–p90", "p50 vs. node"],
        rows: Object.entries(times).map(([name, each]) => [
          name,
          ms(median(each)),
          `${ms(quantile(each, 0.1))}–${ms(quantile(each, 0.9))}`,
          ratio(median(each) / floor),
        ]),
        notes: ["What prints nothing (`node -e 0`, the import) is measured until the process has ended."],
      },
    ];
    const of = (/** @type {string} */ name) => median(times[name] ?? []);
    report("start", tables, {
      import: of('import "savepoint"') - floor,
      log: of("savepoint log") / floor,
      logFiles: of("savepoint log, plain files") / floor,
    });
  });
}

/** @param {string} url @param {number} checkpoints */
async function fill(url, checkpoints) {
  const sp = await Savepoint.open(url, { durability: "process" });
  const session = sp.session("order-88", { agent: "shop" });
  for (let n = 0; n < checkpoints; n++) await session.save({ n });
  await sp.close();
  return url;
}

/** @param {string[]} args @returns {Promise<number>} milliseconds */
async function firstOutput(args) {
  const started = performance.now();
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let printed = 0;
  child.stdout.on("data", () => (printed ||= performance.now()));
  const code = await new Promise((resolve, reject) => child.on("exit", resolve).on("error", reject));
  const ended = performance.now();
  if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}`);
  return (printed || ended) - started;
}
