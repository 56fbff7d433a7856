import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const options =
  "--noEmit --strict --module nodenext --target es2022 --lib es2022,esnext.disposable --types node --ignoreConfig";

describe("the published types", () => {
  it.each([
    ["TypeScript 5.9", "typescript5", options.replace(" --ignoreConfig", "")],
    ["TypeScript 7", "typescript", options],
  ])("compile with %s, and reject what they should", (_, compiler, flags) => {
    const program = `node_modules/${compiler}/bin/tsc`;
    const child = spawnSync(process.execPath, [program, ...flags.split(" "), "test/types/sessions.mts"], {
      cwd: root,
      encoding: "utf8",
    });
    expect(child.stdout + child.stderr).toBe("");
    expect(child.status).toBe(0);
  });

  it.each([
    ["6", [...options.split(" "), "--skipLibCheck", "test/types/ai.mts"]],
    ["7", ["-p", "test/types/tsconfig.ai7.json"]],
  ])("keep what AI SDK %s knows of models, tools and messages", (_, args) => {
    const child = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", ...args], {
      cwd: root,
      encoding: "utf8",
    });
    expect(child.stdout + child.stderr).toBe("");
    expect(child.status).toBe(0);
  });

  it("keep the SDK's types of agents and results", () => {
    const args = [...options.split(" "), "--skipLibCheck", "test/types/openai.mts"];
    const child = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", ...args], {
      cwd: root,
      encoding: "utf8",
    });
    expect(child.stdout + child.stderr).toBe("");
    expect(child.status).toBe(0);
  });
});
