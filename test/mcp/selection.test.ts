/** Which tools and prompts a server offers, and how large their schemas are. */
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { createMcpServer } from "../../src/mcp/index.js";
import { GROUPS, TOOLS } from "../../src/mcp/tools/catalog.js";
import { GENERATIONS, type TestClient } from "./clients.js";
import { useLab } from "./lab.js";

const namesOf = async (client: TestClient): Promise<string[]> => (await client.tools()).map(({ name }) => name);

/** The schemas become part of the context of a model in every conversation. Raise these limits for a reason only. */
const LIMITS = [
  [["coding"], 12_000],
  [["all"], 25_000],
] as const;

describe.each(GENERATIONS)("the selection of tools, for $name", (generation) => {
  const lab = useLab(generation);

  it("by default the server offers what a coding agent needs", async () => {
    const client = await generation.connect(lab.url, { write: true });
    expect(await namesOf(client)).toEqual([
      "session_resume",
      "session_save",
      "session_list",
      "session_search",
      "checkpoint_restore",
      "checkpoint_list",
      "checkpoint_diff",
      "checkpoint_fork",
    ]);
    await client.close();
  });

  it.each(LIMITS)("the schemas of %j have at most %i bytes", async (tools, limit) => {
    const client = await lab.connect({ write: true, tools });
    const bytes = Buffer.byteLength(JSON.stringify({ tools: await client.tools() }));
    expect(bytes, `tools/list of ${tools.join(", ")} has ${bytes} bytes`).toBeLessThanOrEqual(limit);
    expect(bytes).toBeGreaterThan(limit / 2);
  });

  it("groups and single tools can be combined, and other tools cannot be called", async () => {
    const client = await lab.connect({ write: true, tools: ["memory", "checkpoints", "session_save", "session_save"] });
    const names = await namesOf(client);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !/^(agent|conversation|checkpoint)_/.test(name))).toEqual(["session_save"]);
    expect(names).toEqual(expect.arrayContaining(["agent_load", "conversation_search", "checkpoint_create"]));
    await expect(client.raw("session_resume", { session: "s" })).rejects.toThrow("--tools");
    await expect(client.raw("nothing")).rejects.toThrow("There is no tool");
    expect(client.instructions()).toContain("session_save");
    expect(client.instructions()).not.toContain("session_resume");
  });

  it("without `write`, no selection offers a writing tool", async () => {
    const client = await lab.connect({ tools: ["all"] });
    const writing = TOOLS.filter(({ writes }) => writes).map(({ name }) => name);
    expect((await namesOf(client)).filter((name) => writing.includes(name))).toEqual([]);
    expect(client.instructions()).not.toContain("session_save");
    expect((await client.fail("run_answer", { session: "s", answer: 1 })).code).toBe("READ_ONLY");
  });

  it("the complete schemas of results can be read as a resource", async () => {
    const client = await lab.connect();
    const schemas = await client.read<Record<string, { properties: Record<string, object> }>>("savepoint://schemas");
    expect(Object.keys(schemas)).toEqual(TOOLS.map(({ name }) => name));
    expect(schemas["session_save"]?.properties["checkpoint"]).toMatchObject({ properties: { id: { type: "string" } } });
  });

  it("prompts name the tools to call, and are offered only with them", async () => {
    const client = await lab.connect();
    await client.call("session_save", { session: "order-1", state: 1 });
    expect(await client.prompts()).toEqual(["resume", "save", "find", "go_back"]);
    expect(await client.prompt("resume")).toContain("Call session_resume.");
    expect(await client.prompt("resume", { session: 'a"b' })).toContain('session_resume { "session": "a\\"b" }');
    expect(await client.prompt("save")).toContain("session_save");
    expect(await client.prompt("find", { text: "refund" })).toContain('session_search { "text": "refund" }');
    expect(await client.prompt("go_back", { session: "order-1" })).toContain('"order-1"');
    expect(await client.completePrompt("resume", "session", "order")).toEqual(["order-1"]);
    expect(await (await lab.connect({ tools: ["coding"] })).prompts()).toEqual(["resume", "find"]);
  });
});

it("an unknown name of a tool is rejected with the names that exist", async () => {
  const sp = await Savepoint.open("memory:");
  for (const name of ["session_sve", "constructor", "", "Coding"]) {
    const create = (): unknown => createMcpServer(sp, { tools: ["coding", name] });
    expect(create, name).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    expect(create, name).toThrow(JSON.stringify(name));
    for (const group of Object.keys(GROUPS)) expect(create).toThrow(group);
    for (const tool of TOOLS) expect(create).toThrow(tool.name);
  }
  expect(() => createMcpServer(sp, { tools: [] })).toThrow("selects no tool");
  await sp.close();
});
