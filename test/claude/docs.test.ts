// The diffs on docs/claude.md and in the README, run with the SDK; and the package without the SDK.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it } from "vitest";
import { SavepointSessionStore } from "../../src/integrations/claude/index.js";
import { Savepoint } from "../../src/index.js";
import { readDiff } from "../docs/diffs.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
  return () => removeFolder(folder);
});

function run(name: string, code: string, env: Record<string, string> = {}): string {
  writeFileSync(join(folder, name), code);
  const options = { cwd: folder, encoding: "utf8", env: { ...process.env, ...env } } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, name)], options);
  return status === 0 && stderr === "" ? stdout.trim() : `${status}: ${stdout}${stderr}`;
}

describe.each(["docs/claude.md", "README.md"])("the diff on %s", (page) => {
  it("runs before and after, and stores the transcript", async () => {
    mkdirSync(join(folder, "node_modules", "@anthropic-ai"), { recursive: true });
    symlinkSync(root, join(folder, "node_modules", "savepoint"));
    const sdk = "@anthropic-ai/claude-agent-sdk";
    symlinkSync(join(root, "node_modules", sdk), join(folder, "node_modules", sdk));
    // What the reader has already: options, among them the program that stands in for Claude Code.
    const scripted = JSON.stringify(join(root, "examples/claude/scripted-claude.mjs"));
    const own = `const prompt = "Hi."; const options = { pathToClaudeCodeExecutable: ${scripted}, executable: "node" };\n`;
    const env = {
      SCRIPT: '["echo done"]',
      CLAUDE_CONFIG_DIR: join(folder, "config"),
      SAVEPOINT_URL: "sqlite:./agents.db",
    };
    const { before, after } = readDiff(page, "SavepointSessionStore");
    const program = (code: string): string =>
      (code.includes("const prompt") ? own.slice(own.indexOf("const options")) : own) + code;
    const shown = page === "README.md" ? /subtype: 'success'/ : /^success [0-9a-f-]{36}$/;
    expect(run("before.mjs", program(before), env)).toMatch(shown);
    expect(run("after.mjs", program(after), env)).toMatch(shown);
    const sp = await Savepoint.open(`sqlite:${join(folder, "agents.db")}`, { create: false });
    const [session, ...others] = await sp.sessions.list().all();
    expect(others).toEqual([]);
    expect(session?.head?.metadata).toMatchObject({
      claude: { summary: { firstPrompt: expect.any(String) as unknown } },
    });
    await sp.close();
  });
});

describe("savepoint/claude without the SDK", () => {
  it("stores transcripts, and reports what to install where the SDK's summaries are needed", async () => {
    const here = join(folder, "node_modules", "savepoint");
    mkdirSync(here, { recursive: true });
    cpSync(join(root, "package.json"), join(here, "package.json"));
    cpSync(join(root, "dist"), join(here, "dist"), { recursive: true });
    const key = { projectKey: "p", sessionId: "s" };
    const code = `
      import { Savepoint } from "savepoint";
      import { SavepointSessionStore } from "savepoint/claude";
      const sp = await Savepoint.open("file:./store");
      const store = new SavepointSessionStore(sp);
      const key = ${JSON.stringify(key)};
      await store.append(key, [{ type: "custom-title", customTitle: "Mine" }]);
      await store.append(key, [{ type: "tag", tag: "billing" }]);
      const error = await store.listSessionSummaries("p").catch((error) => error);
      console.log((await store.load(key)).length, (await store.listSessions("p")).length, error.code, error.message);
      await sp.close();`;
    expect(run("without.mjs", code)).toMatch(
      /^2 1 MISSING_DEPENDENCY .*Run: npm install @anthropic-ai\/claude-agent-sdk\./,
    );

    // A process that has the SDK adds what the summary does not have yet.
    const sp = await Savepoint.open(`file:${join(folder, "store")}`);
    const store = new SavepointSessionStore(sp);
    const data = async (): Promise<unknown> => (await store.listSessionSummaries("p"))[0]?.data;
    expect(await data()).toMatchObject({ customTitle: "Mine", tag: "billing" });
    await store.append(key, [{ type: "tag", tag: "refunds" }]);
    expect(await data()).toMatchObject({ customTitle: "Mine", tag: "refunds" });
    await sp.close();
  });
});

describe("the example", () => {
  it("does not repeat a call whose result was recorded before the model got it", () => {
    const example = join(root, "examples/claude/refunds.mjs");
    writeFileSync(join(folder, "refund.sh"), "echo 30 EUR >> refunds.log; echo refunded 30 EUR");
    const work = (env: Record<string, string>): { signal: string | null; output: string } => {
      const { signal, stdout, stderr } = spawnSync(process.execPath, [example, "work"], {
        cwd: folder,
        encoding: "utf8",
        env: { ...process.env, CLAUDE_CONFIG_DIR: join(folder, "config"), ...env },
      });
      return { signal, output: stdout + stderr };
    };
    expect(work({ DIE_AFTER: "sh refund.sh" }).signal).toBe("SIGKILL");
    expect(work({}).output).toMatch(/is not executed again. Its result: refunded 30 EUR/);
    expect(readFileSync(join(folder, "refunds.log"), "utf8")).toBe("30 EUR\n");
  });
});
