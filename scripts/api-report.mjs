// The public API as text: node scripts/api-report.mjs [--check]
//
// Writes api/<entry>.txt for each entry point of package.json: every exported name with its declaration, without
// comments. The files are checked in, so that every change of the public API shows in a diff; --check fails if they are not
// current.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript5";

const root = fileURLToPath(new URL("..", import.meta.url));
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const printer = ts.createPrinter({ removeComments: true });
let changed = false;

const entries = Object.entries(exports).flatMap(([name, target]) =>
  typeof target === "object" && target !== null && "types" in target
    ? [{ name: name === "." ? "savepoint" : `savepoint-${name.slice(2)}`, file: join(root, String(target.types)) }]
    : [],
);
const program = ts.createProgram(
  entries.map(({ file }) => file),
  { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, skipLibCheck: true, types: ["node"] },
);
const checker = program.getTypeChecker();
mkdirSync(join(root, "api"), { recursive: true });
for (const { name, file } of entries) {
  const report = reportOf(file);
  const path = join(root, "api", `${name}.txt`);
  const before = existsSync(path) ? readFileSync(path, "utf8") : "";
  if (before === report) continue;
  changed = true;
  if (!process.argv.includes("--check")) writeFileSync(path, report);
  else console.error(`api/${name}.txt is not current: the public API has changed.`);
}
if (changed && process.argv.includes("--check")) {
  console.error("If the change is intended, run: npm run build && node scripts/api-report.mjs, and commit api/.");
  process.exitCode = 1;
}

/** @param {string} file */
function reportOf(file) {
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (!source || !module) throw new Error(`${file} is missing or exports nothing. Run: npm run build`);
  const parts = checker
    .getExportsOfModule(module)
    .slice()
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((symbol) => {
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
      const texts = (target.declarations ?? []).map((declaration) => {
        const [, dependency] = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(declaration.getSourceFile().fileName) ?? [];
        if (dependency) return `${symbol.name}: from ${dependency}`;
        const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
        return printer.printNode(ts.EmitHint.Unspecified, statement, declaration.getSourceFile());
      });
      const renamed = target.name === symbol.name ? "" : `// exported as ${symbol.name}\n`;
      return (
        renamed +
        texts
          .map((text) => text.replace(/^export (default )?(declare )?/, "").replaceAll(/^ +#private;\n/gm, ""))
          .join("\n")
      );
    });
  return `${parts.join("\n\n")}\n`;
}
