// Runs the examples and the demo against the built package.
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { DefaultChatTransport, readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { afterAll, describe, expect, it, type TestContext } from "vitest";
import { type Line, prove } from "../examples/demo/proof.mjs";
import { Savepoint } from "../src/index.js";
import { until } from "./support/until.mjs";

function createFolder({ onTestFinished }: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-examples-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs an example in this folder, which is also its folder for temporary files. */
async function run(folder: string, example: string, args: readonly string[] = [], env: Record<string, string> = {}) {
  const path = fileURLToPath(new URL(example, new URL("../examples/", import.meta.url)));
  const child = spawn(process.execPath, [path, ...args], {
    cwd: folder,
    env: { ...process.env, TMPDIR: folder, TEMP: folder, TMP: folder, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (errors += data));
  const code = await new Promise((resolve, reject) => child.on("close", resolve).on("error", reject));
  return { code, errors, output, lines: output.trim().split("\n") };
}

/** A copy of the coding agent outside the package, as people make it. Removed after all tests. */
const copy = mkdtempSync(join(tmpdir(), "savepoint-coding-agent-"));
afterAll(() => rmSync(copy, { recursive: true, force: true }));
let copied: Promise<string> | undefined;

/** Copies the coding agent, and compiles it if this Node does not run TypeScript. Returns the file to start. */
async function copyCodingAgent(): Promise<string> {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const source = join(root, "examples/coding-agent");
  const isPart = (name: string): boolean => /^(\w|-)+\.(ts|json)$/.test(name);
  for (const name of readdirSync(source).filter(isPart)) cpSync(join(source, name), join(copy, name));
  mkdirSync(join(copy, "node_modules", "@types"), { recursive: true });
  symlinkSync(root, join(copy, "node_modules/savepoint"));
  symlinkSync(join(root, "node_modules/@types/node"), join(copy, "node_modules/@types/node"));
  if ("typescript" in process.features) return pathToFileURL(join(copy, "main.ts")).href;
  const { code, output } = await run(copy, pathToFileURL(join(root, "node_modules/typescript/bin/tsc")).href);
  expect(code, output).toBe(0);
  return pathToFileURL(join(copy, "dist/main.js")).href;
}

/** Runs the coding agent in this folder, with the scripted model. */
async function runCodingAgent(folder: string, args: readonly string[], env: Record<string, string> = {}) {
  const main = await (copied ??= copyCodingAgent());
  const quick = { MODEL_MS: "0", OPENAI_API_KEY: "", OPENAI_BASE_URL: "", WORKSPACE: "workspace" };
  return run(folder, main, args, { ...quick, ...env });
}

/** Starts a server of `examples/server` in this folder, and waits until it listens. */
function startServer(folder: string, file: string, paymentMs: number, test: TestContext) {
  return listen(folder, `server/${file}`, { PAYMENT_MS: String(paymentMs), AI_GATEWAY_API_KEY: "" }, test);
}

/** Starts an example that is a server in this folder, and waits until it listens. */
async function listen(folder: string, file: string, more: Record<string, string>, { onTestFinished }: TestContext) {
  const path = fileURLToPath(new URL(`../examples/${file}`, import.meta.url));
  const env = { ...process.env, PORT: "0", ...more };
  const child = spawn(process.execPath, [path], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  const [url] = await until(() => /http:\S+(?=\n)/.exec(output), `${file} to listen`);
  return {
    url,
    /** The client that `useChat()` uses. */
    client: new DefaultChatTransport({ api: `${url}/api/chat` }),
    stop: async (signal: NodeJS.Signals) => {
      child.kill(signal);
      return ended;
    },
  };
}

function userMessage(id: string, text: string): UIMessage {
  return { id, role: "user", parts: [{ type: "text", text }] };
}

/** What `useChat()` sends for a message. */
function sending(...messages: UIMessage[]) {
  return { chatId: "ada", messages, trigger: "submit-message", messageId: undefined, abortSignal: undefined } as const;
}

/** The text of a streamed reply, when it has ended. */
async function readReply(stream: ReadableStream<UIMessageChunk>): Promise<string> {
  let text = "";
  for await (const { parts } of readUIMessageStream({ stream })) {
    text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  }
  return text;
}

const count = (text: string, part: string): number => text.split(part).length - 1;

describe.concurrent("the demo", () => {
  it("kills its worker, repeats no recorded effect, and removes its files", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output, lines } = await run(folder, "demo/demo.mjs", ["--kills", "5", "--seed", "7"]);
    expect({ code, errors }, output).toEqual({ code: 0, errors: "" });
    expect(lines.at(-1)).toBe("0 recorded effects repeated");
    expect(count(output, "  KILL ")).toBe(5);
    expect(lines.length).toBeLessThan(30);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("rejects unknown and invalid arguments", async (test) => {
    const folder = createFolder(test);
    for (const args of [["--kills", "many"], ["--what"]]) {
      const { code, errors } = await run(folder, "demo/demo.mjs", args);
      expect(code).toBe(2);
      expect(errors).toContain("usage:");
    }
  });

  it("detects repeated effects and violated policies", (test) => {
    const folder = createFolder(test);
    mkdirSync(join(folder, "invoices"));
    mkdirSync(join(folder, "outbox"));
    writeFileSync(join(folder, "ledger.txt"), "order 1\n");
    writeFileSync(join(folder, "invoices", "1.txt"), "");
    for (const to of ["a", "b"]) writeFileSync(join(folder, "outbox", `${to}.txt`), `mail 1${to}`);
    const begin = (effect: string, key = "k"): Line => ({ what: "begin", at: 0, effect, key });
    const kill = (journal: string[] = [], done = 0): Line => ({ what: "kill", at: 0, journal, done });
    const look = (effect: string, found: boolean): Line => ({ what: "look", at: 0, effect, found });
    const [think, charge] = [begin("think 1"), begin("charge 1")];
    const rest = ["invoice 1", "mail 1a", "mail 1b", "think 2"].map((effect) => begin(effect));
    const order = [think, charge, ...rest];
    const check = (evidence: Line[]) => prove(evidence, folder, 1, ["charged 1, invoiced 1, mailed 1a, mailed 1b"]);

    expect(check(order)).toMatchObject({ problems: [], repeated: 0, effects: 6 });
    // Interrupted, and executed again as its policy allows.
    expect(check([begin("think 1"), kill(), ...order])).toMatchObject({ problems: [], again: 1 });
    const looked = [think, charge, begin("invoice 1"), kill(), look("invoice 1", false), ...rest];
    expect(check(looked)).toMatchObject({ problems: [], again: 1 });
    // Recorded, and executed again: it was in the journal, a later effect was entered, or its step was completed.
    expect(check([think, kill(["think 1"]), ...order]).repeated).toBe(1);
    expect(check([think, charge, kill(["charge 1"]), think, ...rest]).repeated).toBe(1);
    expect(check([...order, kill([], 1), begin("mail 1b")]).repeated).toBe(1);
    // Interrupted, and executed again without a check, although it had happened, or with another key.
    expect(check([think, charge, kill(), charge, ...rest]).problems).toHaveLength(1);
    const there = [think, charge, begin("invoice 1"), kill(), look("invoice 1", true), ...rest];
    expect(check(there).problems).toHaveLength(1);
    expect(check([begin("think 1", "other"), kill(), ...order]).problems).toHaveLength(1);
    // A charge is in the ledger twice.
    writeFileSync(join(folder, "ledger.txt"), "order 1\norder 1\n");
    expect(check(order).problems).toEqual(["the ledger contains order 1, order 1"]);
  });
});

describe.concurrent("the examples", () => {
  it("plain-loop: the plain loop books two flights, the durable loop books one", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output } = await run(folder, "plain-loop/after.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    const [plain = "", durable = ""] = output.split("the durable loop");
    expect(count(plain, "BOOKED a flight")).toBe(2);
    expect(count(durable, "BOOKED a flight")).toBe(1);
    expect(durable).toContain("completed: You fly on Monday");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("plain-loop: the plain loop runs on its own", async (test) => {
    const folder = createFolder(test);
    const { code, output } = await run(folder, "plain-loop/before.mjs");
    expect(code).toBe(0);
    expect(output).toContain("done: You fly on Monday");
  });

  it("approval: asks, ends its process, and resumes with the answer", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output } = await run(folder, "approval/approval.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(output).toMatch(/waiting: May I pay 12 euros back\?[^]*MONEY sent\n {2}completed: receipt 4711/);
    expect(count(output, "model call")).toBe(1);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("approval: sends no money if the answer is no", async (test) => {
    const folder = createFolder(test);
    const asked = await run(folder, "approval/approval.mjs", ["refund 5"]);
    expect(asked.output).toContain("waiting: May I pay 5 euros back?");
    const answered = await run(folder, "approval/approval.mjs", ["--answer", "no"]);
    expect({ code: answered.code, errors: answered.errors }).toEqual({ code: 0, errors: "" });
    expect(answered.output).toContain("failed: not approved");
    expect(answered.output).not.toContain("MONEY");
  });

  it("chat: answers each message once, even if it is delivered twice", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output } = await run(folder, "chat/chat.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(output).toContain("Hello Ada, how are you?");
    expect(output).toContain("(replayed: You have told me 2 things, Ada.)");
    expect(output).toContain("You have told me 3 things, Ada.\n  6 messages in the session");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("ai-sdk: resumes after a crash in a tool, and continues a fork with another model", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output, lines } = await run(folder, "ai-sdk/trip.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(count(output, "BOOKS Monday")).toBe(1);
    expect(count(output, "SEARCHES flights")).toBe(1);
    for (const asked of ["early 0", "early 1", "early 2", "late 1", "late 2"]) expect(count(output, asked)).toBe(1);
    expect(lines.slice(-4).map((line) => line.trim())).toEqual([
      "BOOKS Tuesday to Lisbon",
      "model call, late 2",
      "what-if: You fly: Tuesday to Lisbon.",
      "6 messages on main, 6 on what-if",
    ]);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("claude: resumes after a crash in a tool, asks about it, and does not repeat it", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output, lines } = await run(folder, "claude/refunds.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(count(output, "SIGKILL")).toBe(1);
    expect(count(output, "a person answers")).toBe(1);
    expect(output).toMatch(/is not executed again. Its result: refunded 30 EUR\n.*listed as "Refund order 88."/);
    expect(lines.at(-1)).toBe("refunded 1 times");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("openai: resumes after a crash in a tool, waits for an approval, and completes a turn once", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output, lines } = await run(folder, "openai/refund.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(count(output, "FINDS order 88")).toBe(2);
    expect(count(output, "REFUNDS 30 EUR")).toBe(1);
    for (const asked of ["desk 0", "desk 1", "cashier 2", "cashier 3"]) expect(count(output, asked)).toBe(1);
    expect(output).toContain('waiting: May cashier call refund({"amount":30})?');
    expect(lines.slice(-2).map((line) => line.trim())).toEqual(["completed: You get 30 EUR back.", "6 checkpoints"]);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("memory: remembers across threads and kills, has semantic search, and undoes a put", async (test) => {
    const folder = createFolder(test);
    const { code, errors, output, lines } = await run(folder, "memory/memory.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(output).toMatch(/trains at night\?\n +You told me: I take night trains\./);
    expect(lines.slice(-2)).toEqual(["found in memory/users/ada at /pages/0/1", "after a rewind: I like dried"]);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("assistant: searches, restores a checkpoint, and undoes the restore", async (test) => {
    const { code, errors, lines } = await run(createFolder(test), "assistant/assistant.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(lines.slice(-3)).toEqual([
      "restore would change 1 conversation and remove 1",
      "restored: 2 conversations, 3 messages, 0 solved",
      "undone: 3 conversations, 4 messages, 1 solved",
    ]);
  });

  it("sleeper: resumes at its wake time and not before", async (test) => {
    const folder = createFolder(test);
    const { code, errors, lines } = await run(folder, "sleeper/sleeper.mjs");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    const said = lines.filter((line) => line.startsWith("  ")).map((line) => line.trim());
    expect(said).toEqual([
      "MAIL to ada@example.org: your trial has begun",
      expect.stringMatching(/^waiting, wakes in \d s$/),
      "no session to resume",
      "MAIL to ada@example.org: your trial ends",
      "ada completed: 2 mails",
      "no session to resume",
    ]);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("server: a reply that a Hono server streams, killed in a refund, is completed by a node:http server, with one refund", async (test) => {
    const folder = createFolder(test);
    const refunds = join(folder, "refunds.log");
    const refund = userMessage("m1", "Refund order 88.");
    const hello = userMessage("m2", "Hello?");

    const hono = await startServer(folder, "hono.mjs", 600_000, test);
    const reader = (await hono.client.sendMessages(sending(refund))).getReader();
    await until(() => existsSync(refunds), "the refund");
    // Another message while the reply is in progress is refused, and the same one follows the reply.
    const second = await fetch(`${hono.url}/api/chat`, {
      method: "POST",
      body: JSON.stringify({ id: "ada", messages: [hello] }),
    });
    const follow = "/api/chat/ada/stream";
    expect({ status: second.status, body: await second.json() }).toMatchObject({
      status: 409,
      body: { status: "running", messageId: "m1", follow },
    });
    const [again, followed] = await Promise.all([
      hono.client.sendMessages(sending(refund)),
      fetch(`${hono.url}${follow}`),
    ]);
    const { value: first } = await reader.read();
    expect(await again.getReader().read()).toEqual({ done: false, value: first });
    expect(followed.headers.get("content-type")).toBe("text/event-stream");

    expect(await hono.stop("SIGKILL")).toEqual([null, "SIGKILL"]);

    const node = await startServer(folder, "node.mjs", 0, test);
    expect(await readReply(await node.client.sendMessages(sending(refund)))).toBe("Order 88 is refunded.");
    expect(count(readFileSync(refunds, "utf8"), "refunded order 88")).toBe(1);
    expect(await node.client.reconnectToStream({ chatId: "ada" })).toBe(null);
    expect(await readReply(await node.client.sendMessages(sending(hello)))).toContain("Hello.");
    const shown = (await (await fetch(`${node.url}/api/chat/ada`)).json()) as { status: string; messages: UIMessage[] };
    expect(shown.status).toBe("completed");
    expect(shown.messages.map(({ id, role }) => [role, id])).toEqual([
      ["user", "m1"],
      ["assistant", expect.any(String)],
      ["user", "m2"],
      ["assistant", expect.any(String)],
    ]);
    expect(await node.stop("SIGTERM")).toEqual([0, null]);
  });

  it("inspector: both servers show the store below /agents to those who have signed in, and stop with open streams", async (test) => {
    const folder = createFolder(test);
    const url = `sqlite:${join(folder, "store.db")}`;
    const sp = await Savepoint.open(url);
    await sp.session("order-88").save({ messages: [] });
    await sp.close();
    for (const file of ["inspector/node.mjs", "inspector/hono.mjs"]) {
      const server = await listen(folder, file, { INSPECTOR_PASSWORD: "secret", SAVEPOINT_URL: url }, test);
      const get = (path: string, password?: string): Promise<Response> =>
        fetch(`${server.url}${path}`, {
          headers: password === undefined ? {} : { authorization: `Basic ${btoa(`admin:${password}`)}` },
        });
      const refused = await get("/agents/api/sessions", "wrong");
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([
        401,
        expect.stringContaining("Basic"),
      ]);
      expect((await get("/agents/")).status).toBe(401);
      expect(await (await get("/agents/", "secret")).text()).toContain("<!doctype html>");
      const listed = (await (await get("/agents/api/sessions", "secret")).json()) as { sessions: { id: string }[] };
      expect(listed.sessions.map(({ id }) => id)).toEqual(["order-88"]);
      const events = await get("/agents/api/events?topics=sessions", "secret");
      const reader = events.body?.getReader();
      expect(new TextDecoder().decode((await reader?.read())?.value)).toContain("event: hello");
      expect(await server.stop("SIGTERM")).toEqual([0, null]);
    }
  });

  it("coding-agent: asks before a command, asks again after a crash in it, and repeats no recorded call", async (test) => {
    const folder = createFolder(test);
    const start = (args: readonly string[], env = {}) => runCodingAgent(folder, args, env);
    const answer = async (value: unknown): Promise<void> => {
      const sp = await Savepoint.open(`sqlite:${join(folder, ".savepoint/store.db")}`);
      await sp.answer("task-1", value);
      await sp.close();
    };
    const sum = (): string => readFileSync(join(folder, "workspace/sum.mjs"), "utf8");

    const asked = await start(["Write", "a", "function."]);
    expect({ code: asked.code, errors: asked.errors }).toEqual({ code: 0, errors: "" });
    expect(asked.output).toContain("May I run: node sum.test.mjs?");
    expect(asked.output).not.toContain("run_command");
    await answer("yes");
    const crashed = await start([], { CRASH: "run_command" });
    expect(crashed.code).toBe(null);
    const unsure = await start([]);
    expect(unsure.output).toMatch(/run_command.* interrupted/);
    expect(sum()).toContain("a - b");
    await answer({ happened: false });
    const again = await start([]);
    expect(again.output).toContain("May I run: node sum.test.mjs?");
    await answer("yes");
    const done = await start([]);
    expect({ code: done.code, errors: done.errors }).toEqual({ code: 0, errors: "" });
    expect(done.output).toContain("its test passes");
    expect(sum()).toContain("a + b");

    const output = [asked, crashed, unsure, again, done].map((each) => each.output).join("");
    expect(count(output, "I write the test first.")).toBe(1);
    expect(count(output, "I run the test.")).toBe(1);
    expect(count(output, "write_file sum.mjs")).toBe(2);
    // The first command was executed again because the answer said that it had not happened.
    expect(count(output, "run_command node sum.test.mjs")).toBe(3);
  });

  it("coding-agent: calls a model over HTTP, and its tools do not leave the workspace", async (test) => {
    const folder = createFolder(test);
    mkdirSync(join(folder, "workspace"));
    writeFileSync(join(folder, "secret.txt"), "a secret");
    symlinkSync(folder, join(folder, "workspace/link"));
    const call = (id: string, name: string, args: object) => ({
      id,
      type: "function",
      function: { name, arguments: JSON.stringify(args) },
    });
    const calls = [
      call("c1", "read_file", { path: "../secret.txt" }),
      call("c2", "read_file", { path: "link/secret.txt" }),
      call("c3", "write_file", { path: "link/new.txt", content: "x" }),
      call("c4", "write_file", { path: "folder/inside.txt", content: "x" }),
      call("c5", "delete_file", {}),
    ];
    const requests: { messages: { role: string; content: string; tool_calls?: unknown }[] }[] = [];
    const service = createServer((request, response) => {
      let body = "";
      request.on("data", (data) => (body += data));
      request.on("end", () => {
        requests.push(JSON.parse(body));
        const reply = requests.length === 1 ? { content: null, tool_calls: calls } : { content: "Done." };
        response.end(JSON.stringify({ choices: [{ message: reply }], usage: { total_tokens: 7 } }));
      });
    }).listen(0);
    test.onTestFinished(() => void service.close());
    const OPENAI_BASE_URL = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;

    const { code, errors, output } = await runCodingAgent(folder, ["Look around."], { OPENAI_BASE_URL });
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(output).toContain("Done.");
    const [, , asked, ...results] = requests[1]?.messages ?? [];
    expect(asked).toEqual({ role: "assistant", content: "", tool_calls: calls });
    expect(results.map(({ content }) => content)).toEqual([
      "Error: ../secret.txt is outside the workspace.",
      "Error: link/secret.txt is outside the workspace.",
      "Error: link/new.txt is outside the workspace.",
      "Wrote 1 characters to folder/inside.txt.",
      'Error: there is no tool "delete_file".',
    ]);
    expect(existsSync(join(folder, "new.txt"))).toBe(false);
    expect(existsSync(join(folder, "workspace/folder/inside.txt"))).toBe(true);
  });
});
