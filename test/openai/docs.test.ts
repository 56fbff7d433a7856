// The diffs on docs/openai.md and in the README, run with the SDK; and the package without the SDK.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import type { OpenAiState } from "../../src/integrations/openai/index.js";
import { readDiff } from "../docs/diffs.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
  return () => removeFolder(folder);
});

function run(name: string, code: string): string {
  writeFileSync(join(folder, name), code);
  const options = {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, SAVEPOINT_URL: "sqlite:./agents.db" },
  } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, name)], options);
  return status === 0 && stderr === "" ? stdout.trim() : `${status}: ${stdout}${stderr}`;
}

/** What the reader has already: an agent, a session and a question. */
const OWN = `
import { Agent, MemorySession, setTracingDisabled, tool } from "@openai/agents-core";
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from "@openai/agents-core/testing";
import { z } from "zod";
setTracingDisabled(true);
const reply = modelResponder(({ request: { input } }) =>
  input.at(-1).type === "function_call_result" ? [assistantMessage("Found.")] : [functionCall("search", {}, { callId: "c1" })]);
const search = tool({ name: "search", description: "Searches.", parameters: z.object({}), execute: () => "it" });
const shop = new Agent({ name: "shop", model: new ScriptedModel([reply, reply]), tools: [search] });
const [chatId, messageId, question, session] = ["order-42", "message-1", "Where is it?", new MemorySession()];
`;

describe.each(["docs/openai.md", "README.md"])("the diff on %s", (page) => {
  it("runs before and after, and stores the history", async () => {
    mkdirSync(join(folder, "node_modules", "@openai", "agents"), { recursive: true });
    symlinkSync(root, join(folder, "node_modules", "savepoint"));
    symlinkSync(join(root, "node_modules", "zod"), join(folder, "node_modules", "zod"));
    symlinkSync(
      join(root, "node_modules", "@openai", "agents-core"),
      join(folder, "node_modules", "@openai", "agents-core"),
    );
    // The package that the reader installs contains the core, and the models of OpenAI.
    const manifest = { name: "@openai/agents", type: "module", exports: "./index.js" };
    writeFileSync(join(folder, "node_modules", "@openai", "agents", "package.json"), JSON.stringify(manifest));
    writeFileSync(
      join(folder, "node_modules", "@openai", "agents", "index.js"),
      `export * from "@openai/agents-core";\n`,
    );
    const { before, after } = readDiff(page, "savepoint/openai");
    const shown = page === "README.md" ? "\nconsole.log(result.finalOutput);\n" : "";
    expect(run("before.mjs", OWN + before + shown)).toBe("Found.");
    expect(run("after.mjs", OWN + after + shown)).toBe("Found.");
    const sp = await Savepoint.open(`sqlite:${join(folder, "agents.db")}`, { create: false });
    const latest = await sp.session<OpenAiState>("order-42").latest();
    expect(latest?.status).toBe("completed");
    expect(latest?.state.messages).toHaveLength(4);
    await sp.close();
  });
});

describe("savepoint/openai without the SDK", () => {
  it("has sessions, and reports what to install where the SDK is needed", () => {
    const here = join(folder, "node_modules", "savepoint");
    mkdirSync(here, { recursive: true });
    cpSync(join(root, "package.json"), join(here, "package.json"));
    cpSync(join(root, "dist"), join(here, "dist"), { recursive: true });
    const code = `
      import { Savepoint } from "savepoint";
      import { durable, SavepointSession } from "savepoint/openai";
      const sp = await Savepoint.open("file:./store");
      const session = new SavepointSession(sp, "chat-7");
      await session.addItems([{ type: "message", role: "user", content: "Hello" }]);
      const error = await durable(sp, { session: "s" }).catch((error) => error);
      console.log((await session.getItems()).length, error.code, error.message);
      await sp.close();`;
    expect(run("without.mjs", code)).toMatch(/^1 MISSING_DEPENDENCY .*Run: npm install @openai\/agents-core@0\.20 zod/);
  });
});
