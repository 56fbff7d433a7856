// Runs the commands in docs/cli.md on a store made for it and puts what they print beside them, so that it stays true.
//
//   node scripts/cli-docs.mjs           # writes docs/cli.md anew
//   node scripts/cli-docs.mjs --check   # fails if that would change anything
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = join(root, "docs", "cli.md");
const program = join(root, "dist", "bin", "savepoint.js");
/** The agents of the page. */
const AGENTS = `// agents.mjs
import { defineAgent } from "savepoint";

export const shop = defineAgent({
  name: "shop",
  initial: (input) => ({ order: input.order }),
  async step(run) {
    const paid = await run.tool({ id: "refund-1", name: "refund", arguments: { order: run.state.order } }, () => {
      if (process.env.CRASH) process.kill(process.pid, "SIGKILL");
      return 40;
    });
    const sure = await run.ask("Write to the customer?");
    return run.complete(\`refunded \${paid}, \${sure ? "and told" : "and not told"}\`);
  },
});
`;

/** The ends of the ids that this script has made, and what those of the commands become. */
const made = new Set();
/** @type {Map<string, string>} */
const others = new Map();
const folder = mkdtempSync(join(tmpdir(), "savepoint-docs-"));
try {
  await makeStore();
  const before = readFileSync(page, "utf8");
  const after = await fillIn(before);
  if (!process.argv.includes("--check")) writeFileSync(page, after);
  else if (before !== after) {
    console.error("docs/cli.md does not show what the commands print. Run: node scripts/cli-docs.mjs");
    writeFileSync(join(folder, "cli.md"), after);
    console.error(spawnSync("diff", [page, join(folder, "cli.md")], { encoding: "utf8" }).stdout);
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Every block that begins with a command gets what it prints; the list of verbs gets the help of each. @param {string} text */
async function fillIn(text) {
  // Further down, help lists options and ways to name a checkpoint, which look the same.
  const [list = ""] = run("savepoint --help").split("Options of all verbs:");
  const verbs = [...list.matchAll(/^ {2}(\w+) {2,}\S/gm)].map(([, name]) => `savepoint ${name}`);
  const help = ["savepoint", ...verbs].map((verb) => `### ${verb}\n\n\`\`\`text\n${run(`${verb} --help`)}\n\`\`\``);
  const listed = text.replace(
    /<!-- verbs -->[^]*<!-- \/verbs -->/,
    () => `<!-- verbs -->\n\n${help.join("\n\n")}\n\n<!-- /verbs -->`,
  );
  return listed.replace(/```console\n([^]*?)```/g, (_, block) => {
    const commands = /** @type {string} */ (block).split("\n").filter((line) => line.startsWith("$ "));
    return `\`\`\`console\n${commands.map((line) => `${line}\n${withBreak(print(line.slice(2)))}`).join("")}\`\`\``;
  });
}

/** @param {string} text */
function withBreak(text) {
  return text === "" ? "" : `${text}\n`;
}

/** What a command prints; what differs each time is made the same. @param {string} command */
function print(command) {
  return sameIds(run(command))
    .replaceAll(folder, "/home/you/shop")
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "2026-01-31 09:30:00")
    .replace(/(?<=\s)\d\d:\d\d:\d\d(?=\s)/g, "09:30:00")
    .replace(/\d{4}-\d\d-\d\dT\d\d([:-])\d\d[:-]\d\d([.-])\d{3}Z/g, "2026-01-31T09$130$100$2000Z")
    .replace(/"(createdAt|updatedAt|startedAt)":( ?)\d+/g, '"$1":$21769851800000')
    .replace(/\b\d+[smh] ago/g, "5m ago")
    .replace(/[\d.]+ kB(?=, verified|$)/gm, "9.4 kB")
    .replace(/"bytes":\d+/, '"bytes":81920')
    .replace(/[\d.]+ [kMGT]?B free/, "81 GB free")
    .replace(/Node [\d.]+, \w+ \w+/, "Node 20.20.2, linux x64")
    .replace(/process \d+ on \S+(?= ended)/, "process 4711 on laptop");
}

/** @param {string} command */
function run(command) {
  const { stdout, error } = spawnSync("bash", ["-c", `(${command}) 2>&1`], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, PATH: `${folder}/bin:${process.env["PATH"]}`, NO_COLOR: "1", SAVEPOINT_URL: "" },
  });
  if (error) throw error;
  return stdout.trimEnd();
}

/** Ids that the commands have made up become the same ones each time. @param {string} text */
function sameIds(text) {
  return text.replace(/\b([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{4})?([0-9a-f]{8})\b/g, (found, start, end) => {
    if (made.has(end)) return found;
    if (!others.has(end)) others.set(end, idOf(1000 + others.size));
    const id = others.get(end) ?? "";
    return start === undefined ? id.slice(-8) : id;
  });
}

/** @param {number} number */
function idOf(number) {
  const hash = createHash("sha256").update(String(number)).digest("hex");
  return `019c12f3-a0c8-7${hash.slice(0, 3)}-8${hash.slice(3, 6)}-${hash.slice(6, 18)}`;
}

async function makeStore() {
  mkdirSync(join(folder, "bin"));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "savepoint"));
  writeFileSync(join(folder, "bin", "savepoint"), `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`);
  chmodSync(join(folder, "bin", "savepoint"), 0o755);
  writeFileSync(join(folder, "agents.mjs"), AGENTS);
  const { Savepoint } = await import(join(root, "dist", "index.js"));
  execFileSync(join(folder, "bin", "savepoint"), ["init", "-q"], { cwd: folder, stdio: "ignore" });
  const newId = () => {
    const id = idOf(made.size);
    made.add(id.slice(-8));
    return id;
  };
  const now = () => Date.now() - 300_000;
  const sp = await Savepoint.open(`sqlite:${join(folder, ".savepoint", "store.db")}`, { newId, now });
  await sp.agents.save({ id: "support", name: "Support", state: { tone: "friendly" } });
  await sp.conversations.create({
    agent: "support",
    messages: [
      { role: "user", content: "Where is my refund for order 88?" },
      { role: "assistant", content: "It is on its way." },
    ],
  });
  const session = sp.session("order-88", { agent: "shop" });
  await session.save({ order: "88", messages: ["refund 88, please"] }, { trigger: "start" });
  const asked = await session.save({ order: "88", messages: ["refund 88, please", "How much?"] });
  await session.save(
    { order: "88", messages: ["refund 88, please", "How much?", "All of it."] },
    { label: "before the refund" },
  );
  await session.save(
    { order: "88", refunded: 40, messages: ["refund 88, please", "How much?", "All of it.", "Done."] },
    { status: "completed" },
  );
  await session.fork(asked.id, { branch: "what-if", state: { order: "88", messages: ["refund 88, please", "No."] } });
  await sp.close();
}
