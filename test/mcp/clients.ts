/** Real clients of both generations of the SDK, each with a server in this process or in its own process. */
import { fileURLToPath } from "node:url";
import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Transport2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { InMemoryTransport } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { expect } from "vitest";
import { Savepoint } from "../../src/index.js";
import { CODE_KEY } from "../../src/mcp/errors.js";
import type { z } from "zod";
import { createMcpServer, type McpOptions } from "../../src/mcp/index.js";
import { TOOLS } from "../../src/mcp/tools/catalog.js";
import { QUIET } from "../damage/world.js";

const program = fileURLToPath(new URL("./serve.mjs", import.meta.url));

type Fields = Record<string, unknown>;
export type ServerOptions = Pick<McpOptions, "write" | "agent" | "tools" | "project">;

/** The part of a client that the tests use. */
export interface Generation {
  readonly name: string;
  /** A client of a server in this process. */
  connect(url: string, options?: ServerOptions): Promise<TestClient>;
  /** A client of a server in its own process. */
  spawn(url: string, options?: ServerOptions): Promise<SpawnedClient>;
}

const start1 = async (transport: object): Promise<AnyClient> => {
  const client = new Client1({ name: "test", version: "1" });
  await client.connect(transport as Transport1);
  return client as unknown as AnyClient;
};

const start2 = async (transport: object): Promise<AnyClient> => {
  const client = new Client2({ name: "test", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  await client.connect(transport as Transport2);
  return client as unknown as AnyClient;
};

export const GENERATIONS: readonly Generation[] = [
  {
    name: "a client of SDK 1",
    connect: (url, options) => connect(start1, url, options),
    spawn: (url, options) => spawn(start1, new Transport1(parameters(url, options))),
  },
  {
    name: "a client of SDK 2",
    connect: (url, options) => connect(start2, url, options),
    spawn: (url, options) => spawn(start2, new Transport2(parameters(url, options))),
  },
];

async function connect(
  start: (transport: object) => Promise<AnyClient>,
  url: string,
  options: ServerOptions = {},
): Promise<TestClient> {
  const sp = await Savepoint.open(url, { durability: "process", on: QUIET });
  const [near, far] = InMemoryTransport.createLinkedPair();
  for (const end of [near, far]) sendAsJson(end);
  // The same entry point as for processes: it supports the protocol of both generations.
  const server = serveStdio(() => createMcpServer(sp, options), { transport: far });
  const client = await start(near);
  // From now on the client validates every result against the output schema of its tool.
  await client.listTools();
  return new TestClient(client, async () => {
    await server.close();
    await sp.close();
  });
}

/** Messages pass through JSON, as between processes. */
function sendAsJson(end: InMemoryTransport): void {
  const send = end.send.bind(end);
  end.send = (message, options) => send(JSON.parse(JSON.stringify(message)) as typeof message, options);
}

async function spawn(
  start: (transport: object) => Promise<AnyClient>,
  transport: { readonly pid: number | null },
): Promise<SpawnedClient> {
  const client = await start(transport);
  await client.listTools();
  return new SpawnedClient(client, transport.pid as number);
}

/** The newer generation, for tests that do not depend on the protocol. */
export const NEWEST = GENERATIONS[1] as Generation;

export interface CallResult {
  readonly isError?: boolean;
  readonly content: { readonly type: string; readonly text: string }[];
  readonly structuredContent?: Fields;
  readonly _meta?: Fields;
}

export interface ListedTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: { readonly type: string; readonly properties?: Record<string, Fields> };
  readonly outputSchema?: { readonly type: string };
  readonly annotations?: Fields;
}

interface AnyClient {
  callTool(params: { name: string; arguments: Fields }): Promise<CallResult>;
  listTools(): Promise<{ tools: ListedTool[] }>;
  listResources(): Promise<{ resources: { uri: string; name: string }[] }>;
  listResourceTemplates(): Promise<{ resourceTemplates: { uriTemplate: string }[] }>;
  readResource(params: { uri: string }): Promise<{ contents: { text: string; mimeType: string; uri: string }[] }>;
  listPrompts(): Promise<{ prompts: { name: string; title?: string; description?: string }[] }>;
  getPrompt(params: { name: string; arguments: Record<string, string> }): Promise<{
    messages: { role: string; content: { type: string; text: string } }[];
  }>;
  getInstructions(): string | undefined;
  complete(params: Fields): Promise<{ completion: { values: string[] } }>;
  close(): Promise<void>;
}

export class TestClient {
  readonly #client: AnyClient;
  readonly #end: () => Promise<void>;
  #isClosed = false;

  /** @param end ends the server */
  constructor(client: AnyClient, end: () => Promise<void> = async () => {}) {
    this.#client = client;
    this.#end = end;
  }

  /** The result of a tool. An error fails the test. */
  async call<T = Fields>(name: string, args: Fields = {}): Promise<T> {
    const result = await this.raw(name, args);
    expect(result.isError, result.content[0]?.text).toBeFalsy();
    // The structured content and the text are the same, and match the complete schema of the tool, without further fields.
    expect(JSON.parse(result.content[0]?.text ?? "")).toEqual(result.structuredContent);
    const { output } = TOOLS.find((tool) => tool.name === name) as { output: z.ZodObject };
    expect(output.strict().safeParse(result.structuredContent).error, name).toBeUndefined();
    return result.structuredContent as T;
  }

  /** The code and the message of a tool that fails. */
  async fail(name: string, args: Fields = {}): Promise<{ code: unknown; text: string }> {
    const result = await this.raw(name, args);
    expect(result.isError, JSON.stringify(result.structuredContent)).toBe(true);
    const text = result.content[0]?.text ?? "";
    const code = result._meta?.[CODE_KEY];
    expect(text.startsWith(`${String(code)}: `)).toBe(true);
    return { code, text };
  }

  raw(name: string, args: Fields = {}): Promise<CallResult> {
    return this.#client.callTool({ name, arguments: args });
  }

  async tools(): Promise<ListedTool[]> {
    return (await this.#client.listTools()).tools;
  }

  async prompts(): Promise<string[]> {
    return (await this.#client.listPrompts()).prompts.map(({ name }) => name);
  }

  /** The text that a prompt sends to the model. */
  async prompt(name: string, args: Record<string, string> = {}): Promise<string> {
    const { messages } = await this.#client.getPrompt({ name, arguments: args });
    expect(messages).toHaveLength(1);
    return messages[0]?.content.text ?? "";
  }

  instructions(): string | undefined {
    return this.#client.getInstructions();
  }

  async resources(): Promise<{ uri: string; name: string }[]> {
    return (await this.#client.listResources()).resources;
  }

  async templates(): Promise<string[]> {
    return (await this.#client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate);
  }

  async read<T = Fields>(uri: string): Promise<T> {
    const { contents } = await this.#client.readResource({ uri });
    expect(contents[0]?.mimeType).toBe("application/json");
    return JSON.parse(contents[0]?.text ?? "") as T;
  }

  /** The code and the message of a resource that cannot be read. */
  async failToRead(uri: string): Promise<{ code: unknown; text: string }> {
    const error = await this.#client.readResource({ uri }).then(
      () => undefined,
      (thrown: unknown) => thrown as Error & { data?: { code?: unknown } },
    );
    if (!error) throw new Error(`${uri} could be read.`);
    return { code: error.data?.code, text: error.message };
  }

  async complete(
    template: string,
    name: string,
    value: string,
    chosen: Record<string, string> = {},
  ): Promise<string[]> {
    const ref = { type: "ref/resource", uri: template };
    const { completion } = await this.#client.complete({
      ref,
      argument: { name, value },
      context: { arguments: chosen },
    });
    return completion.values;
  }

  async completePrompt(prompt: string, name: string, value: string): Promise<string[]> {
    const ref = { type: "ref/prompt", name: prompt };
    return (await this.#client.complete({ ref, argument: { name, value } })).completion.values;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#client.close();
    await this.#end();
  }
}

export class SpawnedClient extends TestClient {
  readonly pid: number;

  constructor(client: AnyClient, pid: number) {
    super(client);
    this.pid = pid;
  }
}

function parameters(url: string, options: object = {}): { command: string; args: string[]; stderr: "pipe" } {
  return { command: process.execPath, args: [program, url, JSON.stringify(options)], stderr: "pipe" };
}
