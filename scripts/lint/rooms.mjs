// Lint rules for the layout of src/: dependencies point downwards only, and each folder has one door.
//
// A room is a folder that has an `index.ts`, its door. Other rooms import the door and nothing behind it. A room inside
// another one is behind that one's door too: `store/sqlite` may import `store/contract`, `sessions` may import only `store`.
// A folder without a door, such as `cli/verbs`, belongs to the room around it.
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const SRC = fileURLToPath(new URL("../../src/", import.meta.url));

/** All rooms and top-level files, from the bottom to the top. Each may import those above it in this list. */
const LAYERS = [
  "errors",
  "util",
  "state/tree",
  "state/codec",
  "state/diff",
  "state",
  "messages",
  "store/contract",
  "store/shared",
  "store/chunks",
  "store/memory",
  "store/file",
  "store/sqlite",
  "store/postgres",
  "store",
  "records",
  "events",
  "policies",
  "context",
  "sessions",
  "conversations",
  "agents",
  "gc",
  "retention",
  "search",
  "bundle",
  "verify",
  "runs/status",
  "runs/agent",
  "runs/leases",
  "runs/journal",
  "runs/claims",
  "runs/inbox",
  "runs/starting",
  "runs/engine",
  "runs/external",
  "runs/api",
  "runs/worker",
  "runs/queue",
  "runs",
  "api",
  "savepoint",
  "index",
];

/** What any program can import. */
const PUBLIC = ["index"];

/** Rooms that are not layers, and all that they may import. */
const APART = new Map([
  ["store.ts", ["store", "store/contract", "store/file", "store/memory", "store/postgres", "store/sqlite"]],
  ["testing", ["errors", "store"]],
  ["integrations/ai", PUBLIC],
  ["integrations/langgraph", PUBLIC],
  ["mcp", PUBLIC],
  ["cli", [...PUBLIC, "mcp"]],
]);

const ROOMS = new Set([...LAYERS, ...APART.keys()]);

/** @typedef {{ type: string, value?: unknown }} Literal */
/** @typedef {{ source?: Literal | null }} Importing */
/** @typedef {{ filename: string, report(problem: { node: Literal, message: string }): void }} RuleContext */

const rule = {
  /** @param {RuleContext} context */
  create(context) {
    const file = relative(SRC, context.filename).replaceAll("\\", "/");
    if (file.startsWith("..") || file.endsWith(".test.ts")) return {};
    const own = roomOf(file);
    /** @param {Importing} importing */
    const check = ({ source }) => {
      if (source?.type !== "Literal" || typeof source.value !== "string" || !source.value.startsWith(".")) return;
      const target = relative(SRC, resolve(SRC, dirname(file), source.value))
        .replaceAll("\\", "/")
        .replace(/\.js$/, ".ts");
      const message = judge(own, file, target);
      if (message) context.report({ node: source, message });
    };
    return {
      ImportDeclaration: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      ImportExpression: check,
    };
  },
};

/** What is wrong with an import, if anything. @param {string | undefined} own @param {string} file @param {string} target */
function judge(own, file, target) {
  if (own === undefined) return `${file} is in no room that scripts/lint/rooms.mjs lists. Add its folder there.`;
  const room = roomOf(target);
  if (room === undefined) return `${target} is in no room that scripts/lint/rooms.mjs lists. Add its folder there.`;
  if (room === own) return undefined;
  const outermost = doorFor(own, room);
  const isDoor = target === `${outermost}/index.ts` || target === `${outermost}.ts` || target === outermost;
  const allowed = APART.get(own);
  if (allowed) {
    if (allowed.includes(room) && (target === `${room}/index.ts` || isDoor)) return undefined;
    return `${own}/ may import only ${allowed.join(", ")}, each through its door.`;
  }
  if (!isDoor) return `Import ${outermost}/index.js: a room is entered by its door.`;
  if (!(LAYERS.indexOf(outermost) >= 0 && LAYERS.indexOf(outermost) < LAYERS.indexOf(own))) {
    return `${own} may not import ${outermost}: dependencies point downwards (scripts/lint/rooms.mjs has the order).`;
  }
  return undefined;
}

/** The innermost room that a file is in, or the name of a file in `src/` itself. @param {string} file */
function roomOf(file) {
  if (!file.includes("/")) {
    const name = file === "store.ts" ? file : file.replace(/\.ts$/, "");
    return ROOMS.has(name) ? name : undefined;
  }
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) if (ROOMS.has(folder)) return folder;
  return undefined;
}

/** The outermost room around `room` that `own` is not in. @param {string} own @param {string} room */
function doorFor(own, room) {
  let door = room;
  for (let folder = dirname(room); folder !== "."; folder = dirname(folder)) {
    if (ROOMS.has(folder) && own !== folder && !own.startsWith(`${folder}/`)) door = folder;
  }
  return door;
}

export default { meta: { name: "rooms" }, rules: { doors: rule } };
