/** The code in README and docs: every block is type-checked against the package, and whole programs are run. */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript5";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

interface Snippet {
  readonly page: string;
  readonly line: number;
  /** What follows the language, such as `file=refund.mjs`. */
  readonly info: string;
  readonly code: string;
}

/** Names that snippets use without declaring them. A snippet that declares one itself gets its own. */
const PRELUDE: Readonly<Record<string, string>> = {
  sp: 'declare const sp: import("savepoint").Savepoint;',
  session: 'declare const session: import("savepoint").Session<any>;',
  agent: 'declare const agent: import("savepoint").Agent<any, any, any>;',
  shop: 'declare const shop: import("savepoint").Agent<any, any, any>;',
  worker: 'declare const worker: import("savepoint").Worker;',
};

/** Names that only the surrounding program of the reader declares, and names that a page uses in several variants. */
const UNDECLARED = new Set([2304, 2307, 2451, 2503, 2552, 18_004]);
/** JavaScript does not say of what type an input, a loaded state or the elements of a list are. */
const UNTYPED =
  /docs\/runs\.md.*'toolCallId' does not exist|\b(type|types) 'unknown'|Spread types may only be created from object types/;

const pages = ["README.md", ...readdirSync(join(root, "docs")).map((name) => `docs/${name}`)].filter((name) =>
  name.endsWith(".md"),
);
const snippets = pages.flatMap(readSnippets);

function readSnippets(page: string): Snippet[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/^```(?:js|ts|mjs)(?: ([^\n]*))?\n([^]*?)^```/gm)].map((match) => ({
    page,
    line: text.slice(0, match.index).split("\n").length + 1,
    info: match[1] ?? "",
    code: match[2] ?? "",
  }));
}

function declares(code: string, name: string): boolean {
  return new RegExp(
    `(?:const|let|function|class|import)\\b[^;=(]*\\b${name}\\b|\\(\\s*${name}\\s*[,)]|async step\\(${name}`,
  ).test(code);
}

describe("the snippets of the documentation", () => {
  it("are found on the README and on more than five pages", () => {
    expect(new Set(snippets.map(({ page }) => page)).size).toBeGreaterThan(6);
  });

  it("use only what the package exports, with arguments of the right types", () => {
    const sources = new Map(
      snippets.map((snippet, index) => {
        const prelude = Object.entries(PRELUDE).flatMap(([name, text]) => (declares(snippet.code, name) ? [] : [text]));
        // The prelude is one line, so that line numbers are those of the page.
        return [
          join(root, `snippet-${index}.mts`),
          { snippet, text: `${prelude.join(" ")}\n${snippet.code}\nexport {};\n` },
        ];
      }),
    );
    const options: ts.CompilerOptions = {
      noEmit: true,
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2022,
      lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts", "lib.dom.d.ts"],
      types: ["node"],
      skipLibCheck: true,
      strict: false,
    };
    const host = ts.createCompilerHost(options);
    const [fileExists, readFile, getSourceFile] = [
      host.fileExists.bind(host),
      host.readFile.bind(host),
      host.getSourceFile.bind(host),
    ];
    host.fileExists = (file) => sources.has(file) || fileExists(file);
    host.readFile = (file) => sources.get(file)?.text ?? readFile(file);
    host.getSourceFile = (file, version, ...rest) => {
      const own = sources.get(file);
      return own ? ts.createSourceFile(file, own.text, version, true) : getSourceFile(file, version, ...rest);
    };
    const program = ts.createProgram([...sources.keys()], options, host);
    const problems = [...sources].flatMap(([file, { snippet }]) => {
      const source = program.getSourceFile(file) as ts.SourceFile;
      return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
        .filter(({ code }) => !UNDECLARED.has(code))
        .map(({ start = 0, messageText, code }) => {
          const { line } = source.getLineAndCharacterOfPosition(start);
          return `${snippet.page}:${snippet.line + line - 1}: ${ts.flattenDiagnosticMessageText(messageText, " ")} (${code})`;
        })
        .filter((problem) => !UNTYPED.test(problem));
    });
    expect(problems).toEqual([]);
  });
});

describe("the programs of the documentation", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await makeFolder();
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules", "savepoint"));
  });
  afterAll(() => removeFolder(folder));

  interface Program {
    readonly folder: string;
    readonly run: (env?: Record<string, string>) => { signal: string | null; output: string };
  }

  function program(page: string): Program {
    const found = snippets.find((each) => each.page === page && /refund\.mjs/.test(each.info + each.code.slice(0, 40)));
    if (!found) throw new Error(`${page} has no refund.mjs.`);
    const path = join(folder, page.replaceAll("/", "-"), "refund.mjs");
    mkdirSync(dirname(path));
    writeFileSync(path, found.code);
    return {
      folder: dirname(path),
      run: (env = {}) => {
        const options = { cwd: dirname(path), encoding: "utf8", env: { ...process.env, ...env } } as const;
        const { signal, stdout, stderr } = spawnSync(process.execPath, [path], options);
        return { signal, output: `${stdout}${stderr}`.trim() };
      },
    };
  }

  it("the README's agent dies in the refund, resumes without a second refund, and then returns the recorded result", () => {
    const { run, folder: cwd } = program("README.md");
    expect(run({ CRASH: "1" }).signal).toBe("SIGKILL");
    expect(run().output).toBe("completed: Order 88 is refunded.");
    expect(run().output).toBe("completed: Order 88 is refunded.");
    expect(readFileSync(join(cwd, "refunds.log"), "utf8")).toMatch(/^refunded 88, key .+\n$/);
  });

  it("the quickstart's agent asks about the refund that was interrupted", () => {
    const { run } = program("docs/quickstart.md");
    expect(run({ CRASH: "1" }).signal).toBe("SIGKILL");
    expect(run().output).toMatch(/^waiting: .*refund/);
  });
});
