// The tools of the agent. Files are read and written, and commands are run, in one folder: the workspace.
import { exec } from "node:child_process";
import { mkdir, readdir, readFile, realpath, rename, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import type { ToolCall, UnknownPolicy } from "savepoint";

export const WORKSPACE = resolve(process.env["WORKSPACE"] ?? "workspace");

/** Results are sent to the model with every later call, so long ones are cut. */
const MAX_RESULT = 20_000;

interface Tool {
  readonly description: string;
  /** The arguments and their descriptions. All of them are strings. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Whether a person must agree before it runs. */
  readonly needsApproval: boolean;
  /** What happens to a call that was interrupted by a crash: execute it again, or ask a person. */
  readonly onUnknown: UnknownPolicy;
  /** The call in a few words, for people. */
  describe(args: unknown): string;
  execute(args: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string>;
}

const TOOLS: Readonly<Record<string, Tool>> = {
  list_files: {
    description: "Lists the files in the workspace.",
    parameters: {},
    needsApproval: false,
    onUnknown: "retry",
    describe: () => "",
    execute: async () => {
      const entries = await readdir(WORKSPACE, { recursive: true, withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile());
      return files.map((file) => relative(WORKSPACE, join(file.parentPath, file.name))).join("\n") || "(no files)";
    },
  },

  read_file: {
    description: "Reads a file of the workspace.",
    parameters: { path: "the path, relative to the workspace" },
    needsApproval: false,
    onUnknown: "retry",
    describe: (args) => field(args, "path"),
    execute: async ({ path = "" }) => readFile(await resolveInside(path), "utf8"),
  },

  write_file: {
    description: "Writes a file of the workspace, and replaces it if it exists.",
    parameters: { path: "the path, relative to the workspace", content: "the complete content" },
    needsApproval: false,
    // Writing the same content again changes nothing.
    onUnknown: "retry",
    describe: (args) => field(args, "path"),
    execute: async ({ path = "", content = "" }) => {
      const file = await resolveInside(path);
      await mkdir(dirname(file), { recursive: true });
      // The file is complete or unchanged, whenever the process is killed.
      await writeFile(`${file}.new`, content);
      await rename(`${file}.new`, file);
      return `Wrote ${content.length} characters to ${path}.`;
    },
  },

  run_command: {
    description: "Runs a shell command in the workspace, for at most a minute. A person must approve it.",
    parameters: { command: "the command" },
    needsApproval: true,
    // A command can have any effect, so an interrupted one is not repeated before a person has agreed.
    onUnknown: "ask",
    describe: (args) => field(args, "command"),
    execute: ({ command = "" }, signal) => runCommand(command, signal),
  },
};

export function findTool(name: string): Tool | undefined {
  return Object.hasOwn(TOOLS, name) ? TOOLS[name] : undefined;
}

/** Runs a tool. An error is a result too: the model reads it and tries something else. */
export async function runTool({ name, arguments: args }: ToolCall, signal: AbortSignal): Promise<string> {
  const tool = findTool(name);
  if (!tool) return `Error: there is no tool "${name}".`;
  const missing = Object.keys(tool.parameters).filter((key) => typeof (args as never)?.[key] !== "string");
  if (missing.length > 0) return `Error: ${name} needs ${missing.join(" and ")}, as a string.`;
  try {
    const result = await tool.execute(args as Record<string, string>, signal);
    return result.length > MAX_RESULT ? `${result.slice(0, MAX_RESULT)}\n(cut)` : result;
  } catch (error) {
    return `Error: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** The tools in the form in which OpenAI-compatible services expect them. */
export function describeTools(): object[] {
  return Object.entries(TOOLS).map(([name, { description, parameters }]) => {
    const properties = Object.fromEntries(
      Object.entries(parameters).map(([key, text]) => [key, { type: "string", description: text }]),
    );
    const schema = { type: "object", properties, required: Object.keys(parameters), additionalProperties: false };
    return { type: "function", function: { name, description, parameters: schema } };
  });
}

function field(args: unknown, name: string): string {
  const value = (args as Record<string, unknown> | undefined)?.[name];
  return typeof value === "string" ? value : "";
}

/** The absolute path of a file in the workspace. Rejects paths that leave it, also through symbolic links. */
async function resolveInside(path: string): Promise<string> {
  const file = resolve(WORKSPACE, path);
  let existing = file;
  for (;;) {
    const real = await realpath(existing).catch(() => undefined);
    if (real !== undefined) {
      const way = relative(await realpath(WORKSPACE), real);
      if (way.startsWith("..") || isAbsolute(way)) throw new Error(`${path} is outside the workspace.`);
      return file;
    }
    existing = dirname(existing);
  }
}

function runCommand(command: string, signal: AbortSignal): Promise<string> {
  // The commands that a model writes do not get the secrets of the agent.
  const isSecret = (name: string): boolean => /KEY|TOKEN|SECRET|PASSWORD/i.test(name);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !isSecret(name)));
  return new Promise((done) => {
    exec(command, { cwd: WORKSPACE, env, signal, timeout: 60_000 }, (error, stdout, stderr) => {
      const end = error ? `It failed: ${error.signal ?? `exit code ${error.code}`}.` : "It succeeded.";
      done([end, stdout, stderr].filter(Boolean).join("\n"));
    });
  });
}
