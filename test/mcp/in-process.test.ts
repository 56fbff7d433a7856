/** A server inside a program, on a transport of the program. */
import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport } from "@modelcontextprotocol/server";
import { expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { createMcpServer } from "../../src/mcp/index.js";
import { selectTools, TOOLS } from "../../src/mcp/tools/catalog.js";

it("a server works on any transport and leaves the store open", async () => {
  const sp = await Savepoint.open("memory:");
  await sp.session("s").save({ n: 1 });
  const server = createMcpServer(sp);
  const client = new Client({ name: "test", version: "1" });
  const [near, far] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(far), client.connect(near)]);
  expect(client.getServerVersion()).toMatchObject({ name: "savepoint" });
  expect(client.getInstructions()).toContain("session_resume");
  // Read-only by default, with the tools for coding agents.
  const names = (await client.listTools()).tools.map(({ name }) => name);
  expect(names).toEqual(selectTools().flatMap(({ name, writes }) => (writes ? [] : [name])));
  const { structuredContent } = await client.callTool({ name: "session_resume", arguments: { session: "s" } });
  expect(structuredContent).toMatchObject({ state: { n: 1 } });
  await client.close();
  await sp.session("s").save({ n: 2 });
  await sp.close();
});

it("a call on a closed store fails with a code, and the server continues", async () => {
  const sp = await Savepoint.open("memory:");
  const server = createMcpServer(sp, { write: true, tools: ["all"] });
  const client = new Client({ name: "test", version: "1" });
  const [near, far] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(far), client.connect(near)]);
  await sp.close();
  for (const { name, input } of TOOLS) {
    const args = { id: "x", session: "x", text: "x", agent: "x", checkpoint: "x", from: "x", state: 1, answer: 1 };
    const known = Object.fromEntries(
      Object.entries(args).filter(([key]) => key in input.shape && !(name === "session_resume" && key === "from")),
    );
    const result = await client.callTool({
      name,
      arguments: name === "conversation_load" || name === "agent_load" ? { id: "x" } : known,
    });
    expect(JSON.stringify(result.content), name).toContain("CLOSED");
  }
  await client.close();
});
