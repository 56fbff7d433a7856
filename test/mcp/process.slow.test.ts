/** The server as a process: its start, its end, its output, and that a kill loses nothing. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { tapeName } from "../../src/records/index.js";
import { GENERATIONS } from "./clients.js";
import { type Lab, useLab } from "./lab.js";

const program = fileURLToPath(new URL("./serve.mjs", import.meta.url));

/** A server whose protocol is written line by line, without a client that would clean up. */
class Bare {
  readonly process: ChildProcessWithoutNullStreams;
  /** Everything on standard output and standard error. */
  readonly lines: string[] = [];
  stderr = "";
  readonly #ended: Promise<unknown>;

  constructor({ url }: Lab, options: object = { write: true, tools: ["all"] }) {
    this.process = spawn(process.execPath, [program, url, JSON.stringify(options)]);
    this.#ended = once(this.process, "close");
    this.process.stdin.on("error", () => {});
    this.process.stderr.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    createInterface(this.process.stdout).on("line", (line) => this.lines.push(line));
  }

  say(text: string): void {
    this.process.stdin.write(`${text}\n`);
  }

  request(id: number, method: string, params: object = {}): void {
    this.say(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
  }

  call(id: number, name: string, args: object): void {
    this.request(id, "tools/call", { name, arguments: args });
  }

  initialize(): Promise<unknown> {
    const clientInfo = { name: "bare", version: "1" };
    this.request(0, "initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    return this.answer(0);
  }

  /** Resolves with the answer to a request. */
  async answer(id: number): Promise<Record<string, unknown>> {
    for (;;) {
      const found = this.lines
        .map((line) => JSON.parse(line) as Record<string, unknown>)
        .find((each) => each["id"] === id);
      if (found) return found;
      if (this.process.exitCode !== null) throw new Error(`It has ended: ${this.stderr}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async ended(): Promise<number | NodeJS.Signals | null> {
    await this.#ended;
    return this.process.exitCode ?? this.process.signalCode;
  }
}

describe("the process of a server", () => {
  const lab = useLab();

  it("the process finishes pending requests and closes the store when its client disconnects", async () => {
    const server = new Bare(lab);
    await server.initialize();
    server.call(1, "session_save", { session: "s", state: { list: [] } });
    await server.answer(1);
    // Each of these reads before it writes, and is in progress when the client disconnects.
    for (let n = 2; n <= 20; n++) {
      server.call(n, "session_save", { session: "s", changes: [{ op: "add", path: "/list/-", value: n }] });
    }
    server.process.stdin.end();
    expect(await server.ended()).toBe(0);
    const sp = await lab.open();
    expect(sp.lastShutdown).toMatchObject({ clean: true });
    const latest = await sp.session<{ list: number[] }>("s").latest();
    expect(latest?.state.list.sort((x, y) => x - y)).toEqual(Array.from({ length: 19 }, (_, index) => index + 2));
  });

  it("the process closes the store when it receives a signal", async () => {
    const server = new Bare(lab);
    await server.initialize();
    server.call(1, "session_save", { session: "s", state: 1 });
    await server.answer(1);
    server.process.kill("SIGTERM");
    expect(await server.ended()).toBe(0);
    const sp = await lab.open();
    expect(sp.lastShutdown).toMatchObject({ clean: true });
    expect((await sp.session("s").latest())?.state).toBe(1);
  });

  it("the process ends at once if no client ever writes to it", async () => {
    const server = new Bare(lab);
    server.process.stdin.end();
    expect(await server.ended()).toBe(0);
    expect(server.lines).toEqual([]);
  });

  it("the process ends when its output is no longer read", async () => {
    const server = new Bare(lab);
    await server.initialize();
    server.process.stdout.destroy();
    for (let n = 1; n <= 50; n++)
      server.call(n, "session_save", { session: "s", state: { n, text: "x".repeat(10_000) } });
    await server.ended();
    const sp = await lab.open();
    expect(sp.lastShutdown).toMatchObject({ clean: true });
  });

  it("the process survives garbage and damaged data, and writes only protocol messages to stdout", async () => {
    const sp = await lab.open();
    await sp.session("damaged").save({ messages: ["1".repeat(3000)] });
    await sp.close();
    await lab.damage({ kind: "item", tape: tapeName(0, 0), item: 0 });
    const server = new Bare(lab);
    server.say("not json");
    server.say('{"half":');
    await server.initialize();
    const garbage = [
      "\u0000\u0001\u0002",
      "{}",
      "[]",
      "null",
      '"text"',
      '{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
      '{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
      '{"jsonrpc":"2.0","method":"notifications/nothing"}',
      '{"jsonrpc":"2.0","id":7,"result":{}}',
      "x".repeat(100_000),
      "",
    ];
    for (const line of garbage) server.say(line);
    server.process.stdin.write(Buffer.from([0xff, 0xfe, 0x80, 0x0a]));
    server.request(50, "no/such/method");
    server.request(51, "tools/call", { name: 7 });
    server.request(52, "tools/call", { name: "session_save", arguments: "text" });
    server.request(53, "resources/read", {});
    for (const id of [50, 51, 52, 53]) expect(await server.answer(id)).toHaveProperty("error");
    server.call(98, "session_resume", { session: "damaged" });
    expect(await server.answer(98)).toMatchObject({ result: { isError: true } });
    server.call(99, "session_save", { session: "s", state: 1 });
    expect(await server.answer(99)).toMatchObject({ result: { structuredContent: { checkpoint: { seq: 0 } } } });
    for (const line of server.lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
    server.process.stdin.end();
    expect(await server.ended()).toBe(0);
    expect(server.stderr).toContain("savepoint mcp:");
  });

  it("no acknowledged save is lost, however often the server is killed, with both generations of clients", async () => {
    const saved: number[] = [];
    const said: string[] = [];
    let n = 0;
    for (const generation of GENERATIONS) {
      for (const killedWhen of ["acknowledged", "in progress"]) {
        const client = await generation.spawn(lab.url, { write: true, tools: ["all"] });
        const last = n + 12;
        const kill = (): void => void process.kill(client.pid, "SIGKILL");
        for (let dead = false; !dead;) {
          n++;
          const number = n;
          dead = number === last;
          const isLast = dead;
          const saving = client
            .call("session_save", { session: "s", state: { n: number } })
            .then(() => saved.push(number));
          const saying = client
            .call("conversation_save", { id: "c", messages: [message.user(`m${number}`)] })
            .then(() => {
              said.push(`m${number}`);
              // At the moment of the acknowledgement.
              if (isLast && killedWhen === "acknowledged") kill();
            });
          // Or while both are in progress: then each may exist or not, but nothing before them may be missing.
          if (isLast && killedWhen === "in progress") kill();
          await Promise.allSettled([saving, saying]);
        }
        await client.close();
      }
    }
    expect(saved.length).toBeGreaterThan(40);
    expect(said.length).toBeGreaterThan(40);
    const again = await lab.connect();
    const sp = await lab.open();
    const states = new Set<number>();
    for await (const { id } of sp.session("s").history()) {
      states.add((await sp.session<{ n: number }>("s").load(id))?.state.n ?? -1);
    }
    for (const number of saved) expect(states, `${number}`).toContain(number);
    const texts = (await sp.conversations.load("c"))?.messages.map(({ content }) => content) ?? [];
    for (const text of said) expect(texts).toContain(text);
    expect(new Set(texts).size).toBe(texts.length);
    const { state } = await again.call<{ state: { n: number } }>("session_resume", { session: "s" });
    expect(state.n).toBeGreaterThanOrEqual(saved.at(-1) as number);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });
});
