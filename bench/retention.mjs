// What pruning gives back: a long thread with edits, pruned and compacted, beside a fresh import of what stayed.
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { inFolder, timed } from "./lib/measure.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";
import { message, seeded } from "./lib/states.mjs";

/** @param {string[]} args steps, and how many checkpoints are kept */
export default async function retention(args) {
  const [steps = 10_000, keep = 100] = args.map(Number);
  const rows = [];
  for (const [name, url] of /** @type {const} */ ([
    ["SQLite, with edits", (/** @type {string} */ f) => `sqlite:${join(f, "s.db")}`],
    ["plain files, with edits", (/** @type {string} */ f) => `file:${join(f, "s")}`],
  ])) {
    rows.push(
      await inFolder((folder) => prune(name, url(join(folder, "a")), url(join(folder, "b")), steps, keep, true)),
    );
  }
  rows.push(
    await inFolder((folder) =>
      prune(
        "SQLite, only growing",
        `sqlite:${join(folder, "a.db")}`,
        `sqlite:${join(folder, "b.db")}`,
        steps,
        keep,
        false,
      ),
    ),
  );
  report("retention", [
    {
      title: `${steps} steps pruned to the last ${keep}`,
      head: [
        "",
        "before",
        "after prune",
        "after compact",
        "fresh import of what stayed",
        "compacted vs. import",
        "prune",
        "items freed",
      ],
      rows,
      notes: [
        "Each step adds a message of 500 bytes and replaces one of 20 files of 4 kB; messages are trimmed to the last 2,000. Only growing: it adds the message, and nothing else.",
      ],
    },
  ]);
}

/** @param {string} name @param {string} url @param {string} other @param {number} steps @param {number} keep @param {boolean} edits */
async function prune(name, url, other, steps, keep, edits) {
  const random = seeded(1);
  const sp = await Savepoint.open(url, { durability: "process" });
  /** @type {{ messages: unknown[]; files: Record<string, string> }} */
  const state = { messages: [], files: {} };
  const session = sp.session("s");
  for (let n = 0; n < steps; n++) {
    state.messages.push({ ...message(random, n), content: `${n} `.repeat(100) });
    if (edits) {
      state.files[`file-${n % 20}.ts`] = `${n} line of text\n`.repeat(250);
      if (state.messages.length > 2000) state.messages.shift();
    }
    await session.save(state);
    if (n % 1000 === 999) process.stderr.write(`${name}: ${n + 1} steps\n`);
  }
  const before = await sp.bytes();
  /** @type {Awaited<ReturnType<typeof session.prune>> | undefined} */
  let result;
  const time = await timed(async () => (result = await session.prune({ keepLast: keep })));
  const pruned = await sp.bytes();
  await sp.compact();
  const compacted = await sp.bytes();
  const fresh = await Savepoint.open(other, { durability: "process" });
  await fresh.import(sp.export());
  await fresh.compact();
  const imported = await fresh.bytes();
  await Promise.all([sp.close(), fresh.close()]);
  return [
    name,
    bytes(before),
    bytes(pruned),
    bytes(compacted),
    bytes(imported),
    ratio(compacted / imported),
    ms(time),
    String(result?.items),
  ];
}
