// Lint rules for the modules of src/: imports point downwards only, and each module has one entry point.
//
// A module is a folder that has an `index.ts`, its entry point. Other modules import the entry point and nothing else. A
// module inside another one is internal to it: `store/sqlite` may import `store/contract`, `sessions` may import only `store`.
// A folder without an `index.ts`, such as `cli/verbs`, belongs to the module around it.
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const SRC = fileURLToPath(new URL("../../src/", import.meta.url));

/** All modules and top-level files, from the lowest layer to the highest. Each may import only those listed before it. */
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
  "encryption",
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
  "erasure",
  "runs/status",
  "runs/agent",
  "runs/leases",
  "runs/streams",
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

/** The public API. */
const PUBLIC = ["index"];
/** What the integrations may import. */
const INTEGRATION = [...PUBLIC, "integrations/shared"];

/** Modules that are not layers, and all that they may import: modules, or single files of them. */
const APART = new Map([
  ["store.ts", ["store", "store/contract", "store/file", "store/memory", "store/postgres", "store/sqlite"]],
  ["testing", ["errors", "store"]],
  ["integrations/shared", PUBLIC],
  ["integrations/ai", INTEGRATION],
  ["integrations/claude", INTEGRATION],
  ["integrations/langgraph", INTEGRATION],
  ["integrations/openai", INTEGRATION],
  ["mcp", PUBLIC],
  ["inspector", PUBLIC],
  // The page imports the types of the JSON API, and nothing that runs on the server.
  ["inspector/page", ["inspector/api"]],
  ["cli", [...PUBLIC, "mcp", "inspector"]],
]);

const MODULES = new Set([...LAYERS, ...APART.keys()]);

/** @typedef {{ type: string, value?: unknown }} Literal */
/** @typedef {{ source?: Literal | null }} Importing */
/** @typedef {{ filename: string, report(problem: { node: Literal, message: string }): void }} RuleContext */

const rule = {
  /** @param {RuleContext} context */
  create(context) {
    const file = relative(SRC, context.filename).replaceAll("\\", "/");
    if (file.startsWith("..") || file.endsWith(".test.ts")) return {};
    const own = moduleOf(file);
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

/** Returns what is wrong with an import; `undefined` if nothing is. @param {string | undefined} own @param {string} file @param {string} target */
function judge(own, file, target) {
  if (own === undefined) return `${file} is in no module that scripts/lint/modules.mjs lists. Add its folder there.`;
  const module = moduleOf(target);
  if (module === undefined)
    return `${target} is in no module that scripts/lint/modules.mjs lists. Add its folder there.`;
  if (module === own) return undefined;
  const outermost = outermostModule(own, module);
  const isEntryPoint = target === `${outermost}/index.ts` || target === `${outermost}.ts` || target === outermost;
  const allowed = APART.get(own);
  if (allowed) {
    if (allowed.includes(target.replace(/\.ts$/, ""))) return undefined;
    if (allowed.includes(module) && (target === `${module}/index.ts` || isEntryPoint)) return undefined;
    return `${own}/ may import only ${allowed.join(", ")}, each through its entry point.`;
  }
  if (!isEntryPoint) return `Import ${outermost}/index.js, the entry point of the module.`;
  if (!(LAYERS.indexOf(outermost) >= 0 && LAYERS.indexOf(outermost) < LAYERS.indexOf(own))) {
    return `${own} may not import ${outermost}: imports point downwards (scripts/lint/modules.mjs has the order).`;
  }
  return undefined;
}

/** The innermost module that a file is in, or the name of a file in `src/` itself. @param {string} file */
function moduleOf(file) {
  if (!file.includes("/")) {
    const name = file === "store.ts" ? file : file.replace(/\.ts$/, "");
    return MODULES.has(name) ? name : undefined;
  }
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) if (MODULES.has(folder)) return folder;
  return undefined;
}

/** The outermost module around `module` that `own` is not in. @param {string} own @param {string} module */
function outermostModule(own, module) {
  let outermost = module;
  for (let folder = dirname(module); folder !== "."; folder = dirname(folder)) {
    if (MODULES.has(folder) && own !== folder && !own.startsWith(`${folder}/`)) outermost = folder;
  }
  return outermost;
}

export default { meta: { name: "modules" }, rules: { boundaries: rule } };
