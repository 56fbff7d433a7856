// Chats with React's `useChat({ resume: true })` in Chromium: pages that are reloaded in the middle of a reply, and servers that are
// killed there.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline, Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { type AiState, uiMessages } from "../../src/integrations/ai/index.js";
import type { Savepoint } from "../../src/index.js";
import { ALL, answer, REPLY, serveChats, Teller } from "./chat.js";
import { call, text } from "./models.js";
import { convertToModelMessages, tool } from "./sdk.js";
import { Child } from "../run-crash/children.js";
import { temporaryFolder } from "../run-crash/folders.js";
import { openLab, until } from "../run/lab.js";
import { launchBrowser } from "../browser/world/browser.mjs";

const child = fileURLToPath(new URL("../ai-crash/chat-child.mjs", import.meta.url));

let browser: Browser;
let script: string;

beforeAll(async () => {
  const bundle = await build({
    entryPoints: [fileURLToPath(new URL("chat-page.mjs", import.meta.url))],
    bundle: true,
    write: false,
    define: { "process.env.NODE_ENV": '"development"' },
  });
  script = bundle.outputFiles[0]?.text ?? "";
  browser = await launchBrowser();
});
afterAll(() => browser.close());

/** A site with the page of a chat. Requests for its API go to another server, as behind a proxy. */
class Site {
  #url = "";

  /** @param api where the API is */
  constructor(public api: string) {}

  async listen(): Promise<string> {
    const server = createServer((request, response) => {
      // A broken connection to the API is one to the page, too.
      this.#answer(request, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void (server.closeAllConnections(), server.close()));
    return (this.#url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = "", method = "GET" } = request;
    if (url === "/page.js") response.writeHead(200, { "content-type": "text/javascript" }).end(script);
    else if (!url.startsWith("/api/chat")) response.end(await this.#page());
    else {
      const abort = new AbortController();
      response.on("close", () => abort.abort());
      const body = method === "POST" ? Buffer.concat(await request.toArray()).toString() : undefined;
      const target = `${this.api}${url.slice("/api/chat".length)}`;
      const answered = await fetch(target, { method, body, signal: abort.signal } as RequestInit);
      response.writeHead(answered.status, Object.fromEntries(answered.headers));
      if (answered.body) pipeline(Readable.fromWeb(answered.body as never), response, () => {});
      else response.end();
    }
  }

  async #page(): Promise<string> {
    const { messages } = (await (await fetch(this.api)).json()) as { messages: unknown[] };
    const chat = JSON.stringify(JSON.stringify({ id: "s", messages })).replaceAll("<", "\\u003c");
    return `<!doctype html><meta charset="utf-8"><div id="root"></div><script>window.chat = ${chat}</script><script src="/page.js"></script>`;
  }

  async open(): Promise<Page> {
    const page = await browser.newPage();
    onTestFinished(() => page.close());
    await page.goto(this.#url);
    await page.waitForSelector("#status");
    return page;
  }
}

async function openSite(api: string): Promise<Site> {
  const site = new Site(api);
  await site.listen();
  return site;
}

/** The replies that a page shows. */
const replies = (page: Page): Promise<string[]> =>
  page.$$eval("article.assistant", (all) => all.map((each) => (each.textContent ?? "").trim()));

async function untilReplies(page: Page, expected: readonly string[], status?: string): Promise<void> {
  let shown: unknown;
  await until(
    async () => {
      const at = await page.textContent("#status");
      shown = [await replies(page), at, await page.textContent("#error")];
      return JSON.stringify(await replies(page)) === JSON.stringify(expected) && (status ?? at) === at;
    },
    () => `${JSON.stringify(expected)}, the page shows ${JSON.stringify(shown)}`,
  );
}

/** Answers as on docs/chat.md, and returns the stored messages. */
function serve(sp: Savepoint, teller: Teller, tools: Record<string, object> = {}): Promise<string> {
  return serveChats(sp, async ({ id, messages }) => {
    const message = messages.at(-1) as (typeof messages)[number];
    const options = { session: id, turn: message.id, messages: await convertToModelMessages([message]) };
    return (await answer(sp, teller, options, (run) => ({ tools: run.tools(tools) }) as never)).response;
  });
}

describe("a page with useChat({ resume: true })", () => {
  it("that is reloaded during a reply shows it from its beginning and follows it, as another tab does", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    const site = await openSite(await serve(sp, teller));
    const page = await site.open();
    await page.click("#send");
    teller.say(2);
    await untilReplies(page, ["one two"], "streaming");
    const other = await site.open();
    await untilReplies(other, ["one two"], "streaming");
    await page.reload();
    await untilReplies(page, ["one two"], "streaming");
    teller.say(3);
    await Promise.all([page, other].map((each) => untilReplies(each, ["one two three"])));
    teller.say(4);
    await Promise.all([page, other].map((each) => untilReplies(each, [ALL], "ready")));
    await page.reload();
    await untilReplies(page, [ALL], "ready");
    expect(teller.calls).toBe(1);
    expect(await uiMessages(sp.session<AiState>("s"))).toHaveLength(2);
  });

  it("that is closed or stopped does not stop the reply; a cancel does", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    const site = await openSite(await serve(sp, teller));
    const page = await site.open();
    await page.click("#send");
    teller.say(1);
    await untilReplies(page, ["one"]);
    await page.click("#stop");
    await untilReplies(page, ["one"], "ready");
    await page.close();
    teller.say(2);
    const back = await site.open();
    await untilReplies(back, ["one two"], "streaming");
    await sp.cancel("s", "the user pressed stop");
    await untilReplies(back, ["one two"], "ready");
    expect((await sp.sessions.load("s"))?.status).toBe("halted");
  });

  it("that is reloaded after an approval shows the whole message", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller([[text("May I? "), call("c1", "pay", {})], [text("It is paid.")]]);
    const pay = tool({ inputSchema: z.object({}), needsApproval: true, execute: async () => "receipt" });
    const site = await openSite(await serve(sp, teller, { pay }));
    const page = await site.open();
    await page.click("#send");
    teller.say(2);
    await page.waitForSelector("#approve");
    await page.reload();
    await page.click("#approve");
    teller.say(4);
    await untilReplies(page, ["May I? [receipt] It is"], "streaming");
    await page.reload();
    await untilReplies(page, ["May I? [receipt] It is"], "streaming");
    teller.say(9);
    await untilReplies(page, ["May I? [receipt] It is paid."], "ready");
    await page.reload();
    await untilReplies(page, ["May I? [receipt] It is paid."], "ready");
  });

  it("whose server is killed during a reply reports an error, and after a reload shows one coherent reply of another server", async () => {
    const folder = temporaryFolder();
    const [victim, survivor] = [new Child(child), new Child(child)];
    onTestFinished(async () => void (await Promise.all([victim.kill(), survivor.kill()])));
    const variant = { sdk: 6, words: "other" };
    const start = async (server: Child, ...death: unknown[]): Promise<string> =>
      ((await server.do("serve", folder, variant, ...death)) as { done: string }).done;
    const site = await openSite(await start(victim, { point: "part", passing: 10 }));
    const page = await site.open();
    await page.click("#send");
    await until(
      async () => (await page.textContent("#status")) === "error",
      "the page to notice that its server is dead",
    );
    const marks = (said: string): string[] => [
      ...new Set([...said.matchAll(/1\.\d\.(\d+)/g)].map(([, mark = ""]) => mark)),
    ];
    const before = marks((await replies(page)).join());
    site.api = await start(survivor);
    await survivor.do("resume");
    await page.reload();
    await until(async () => (await replies(page)).join().includes("1.7."), "the last word");
    const [reply = "", ...others] = await replies(page);
    expect(others).toEqual([]);
    expect(reply.replace("[charged] ", "").replaceAll(/\.\d+(?= |$)/g, "")).toBe(
      "0.0 0.1 0.2 0.3 0.4 1.0 1.1 1.2 1.3 1.4 1.5 1.6 1.7",
    );
    expect(marks(reply)).toHaveLength(1);
    expect(before).not.toContain(marks(reply)[0]);
    await until(async () => (await page.textContent("#status")) === "ready", "the end of the reply");
  });
});
