// A session that grows for 1,000 steps, is compared, branched from and gone back on; and what that costs.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Savepoint } from "savepoint";

/** @import { Session } from "savepoint" */
/** @typedef {{ city: string; messages: { id: number; role: string; content: string }[] }} Trip */

const STEPS = 1000;
const folder = mkdtempSync(join(tmpdir(), "savepoint-demo-"));
const sp = await Savepoint.open(`sqlite:${join(folder, "demo.db")}`);
try {
  await demo();
} finally {
  await sp.close();
  rmSync(folder, { recursive: true, force: true });
}

async function demo() {
  const session = /** @type {Session<Trip>} */ (sp.session("trip", { agent: "planner" }));

  // 1. An agent's work: each step adds a message, and the whole state is handed over each time.
  /** @type {Trip} */
  const state = { city: "Lisbon", messages: [] };
  let fullCopies = 0;
  let stored = 0;
  const started = performance.now();
  for (let step = 0; step < STEPS; step++) {
    state.messages.push({ id: step, role: step % 2 ? "assistant" : "user", content: words(step, 160) });
    const saved = await session.save(state, step === 499 ? { label: "half way" } : {});
    fullCopies += saved.stateBytes;
    stored += saved.storedBytes;
    progress(step + 1);
  }
  const spent = performance.now() - started;
  await sp.compact();
  say(`saved ${STEPS} steps of a growing conversation, each durable on disk, in ${seconds(spent)}`);
  say(`  ${(spent / STEPS).toFixed(2)} ms a step, ${bytes(stored / STEPS)} a step, ${bytes(await sp.bytes())} on disk`);
  say(`  ${STEPS} full copies would have been ${bytes(fullCopies)}: ${Math.round(fullCopies / stored)} times as much`);

  // 2. Any past moment can be opened.
  const half = await session.load({ label: "half way" });
  if (!half) throw new Error("the labelled checkpoint is gone");
  say(`opened "${half.label}": step ${half.step} with ${half.state.messages.length} messages`);

  // 3. What if? A branch from there costs next to nothing, and leaves the main line alone.
  const whatIf = await session.fork(half.id, { branch: "porto", state: { ...half.state, city: "Porto" } });
  await whatIf.append("/messages", [{ id: STEPS, role: "assistant", content: "Porto is cheaper." }]);
  const branch = await whatIf.head();
  if (!branch) throw new Error("the branch is empty");
  const changes = await session.diff(half.id, branch.id);
  say(`forked "${branch.branch}" from it; since then:`);
  for (const change of changes) say(`  ${change.op} ${change.path}`);

  // 4. And back, keeping what was left behind.
  const before = await session.head();
  await session.rewind(half.id);
  const now = await session.latest();
  const kept = await session.load(before?.id ?? "");
  say(
    `rewound to step ${now?.step}; step ${kept?.step} is still there, and so are all ${(await session.history({ allBranches: true }).all()).length} checkpoints`,
  );
  for await (const { name, head } of session.branches()) say(`  branch ${name}: #${head?.seq}, step ${head?.step}`);
}

/** @param {number} seed @param {number} count */
function words(seed, count) {
  const dictionary = ["alfama", "ferry", "museum", "train", "hotel", "sunset", "market", "river", "castle", "tram"];
  return Array.from({ length: count }, (_, index) => dictionary[(seed * 7 + index * index) % 10]).join(" ");
}

/** @param {number} done */
function progress(done) {
  if (!process.stdout.isTTY) return;
  process.stdout.write(done < STEPS ? `\rsaving ${done}/${STEPS}` : "\r\u001b[K");
}

/** @param {string} line */
function say(line) {
  console.log(line);
}

/** @param {number} milliseconds */
function seconds(milliseconds) {
  return `${(milliseconds / 1000).toFixed(2)} s`;
}

/** @param {number} count */
function bytes(count) {
  if (count < 10_000) return `${Math.round(count)} bytes`;
  return count < 10_000_000 ? `${Math.round(count / 1000)} kB` : `${Math.round(count / 1_000_000)} MB`;
}
