// The diffs in docs/ai-sdk.md, docs/chat.md and the README, and the routes of examples/server for Next.js, called with requests as a framework calls them.
import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { beforeEach, describe, expect, it } from "vitest";
import { readDiff } from "../docs/diffs.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "savepoint"));
  symlinkSync(join(root, "node_modules", "ai"), join(folder, "node_modules", "ai"));
  symlinkSync(join(root, "node_modules", "zod"), join(folder, "node_modules", "zod"));
  return () => removeFolder(folder);
});

function run(name: string, code: string): string {
  writeFileSync(join(folder, name), code);
  const options = {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, PAYMENT_MS: "0", AI_GATEWAY_API_KEY: "", SAVEPOINT_URL: "sqlite:./agents.db" },
  } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, name)], options);
  return status === 0 && stderr === "" ? stdout.trim() : `${status}: ${stdout}${stderr}`;
}

/** The code that the reader already has: a model, two tools and a question. */
const OWN = `
  import { tool } from "ai";
  import { MockLanguageModelV3 } from "ai/test";
  import { z } from "zod";
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  const reply = (content, unified) => ({ content: [content], finishReason: { unified, raw: undefined }, usage, warnings: [] });
  const model = new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => prompt.at(-1).role === "tool"
      ? reply({ type: "text", text: "Found." }, "stop")
      : reply({ type: "tool-call", toolCallId: "c1", toolName: "search", input: "{}" }, "tool-calls"),
  });
  const search = tool({ inputSchema: z.object({}), execute: () => "it" });
  const charge = tool({ inputSchema: z.object({}), execute: () => "paid" });
  const [chatId, messageId, question, history] = ["order-42", "message-1", "Where is it?", []];
`;

describe.each(["docs/ai-sdk.md", "README.md"])("the diff for the AI SDK in %s", (page) => {
  it("runs before and after the change, and only after it, a repeated turn calls no model", () => {
    const { before, after } = readDiff(page, "savepoint/ai");
    const show = `console.log(result.text, model.doGenerateCalls.length);`;
    const runs = (code: string): string[] => ["first", "second"].map((name) => run(`${name}.mjs`, OWN + code + show));
    expect(runs(before)).toEqual(["Found. 2", "Found. 2"]);
    expect(runs(after)).toEqual(["Found. 2", "Found. 0"]);
  });
});

/** What a program needs to send the messages of a chat, and to read replies. */
const CLIENT = `
  const ask = (id, text) => new Request("http://localhost/api/chat", {
    method: "POST",
    body: JSON.stringify({ id: "c1", messages: [{ id, role: "user", parts: [{ type: "text", text }] }] }),
  });
  const at = { params: Promise.resolve({ id: "c1" }) };
  const said = async (response) => [...(await response.text()).matchAll(/"delta":"([^"]*)"/g)].map(([, delta]) => delta).join("");
`;

it("the diff on docs/chat.md runs before and after", () => {
  writeFileSync(
    join(folder, "model.mjs"),
    `import { MockLanguageModelV3 } from "ai/test";
    import { simulateReadableStream } from "ai";
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
    export const model = new MockLanguageModelV3({
      doStream: async ({ prompt }) => ({ stream: simulateReadableStream({ chunks: [
        { type: "stream-start", warnings: [] },
        { type: "text-start", id: "t" },
        { type: "text-delta", id: "t", delta: "Prompt: " + prompt.length },
        { type: "text-end", id: "t" },
        { type: "finish", finishReason: { unified: "stop", raw: undefined }, usage },
      ] }) }),
    });`,
  );
  const { before, after } = readDiff("docs/chat.md", "resumeUIMessageStreamResponse");
  const program = (route: string): string => `
    import * as route from "./${route}";
    ${CLIENT}
    const replies = [await said(await route.POST(ask("m1", "Hi"))), await said(await route.POST(ask("m2", "And?")))];
    console.log(replies.join(), (await route.GET?.(new Request("http://localhost"), at))?.status);
  `;
  writeFileSync(join(folder, "before.mjs"), before);
  writeFileSync(join(folder, "after.mjs"), after);
  // Before, the page has to send the whole conversation.
  expect(run("run-before.mjs", program("before.mjs"))).toBe("Prompt: 1,Prompt: 1 undefined");
  expect(run("run-after.mjs", program("after.mjs"))).toBe("Prompt: 1,Prompt: 3 204");
});

it("the routes for Next.js answer, show and stop a chat", () => {
  const routes = pathToFileURL(join(root, "examples/server/next/app/api/chat/")).href;
  const output = run(
    "next.mjs",
    `import { POST } from "${routes}route.js";
    import { GET as show } from "${routes}[id]/route.js";
    import { GET as follow } from "${routes}[id]/stream/route.js";
    import { POST as stop } from "${routes}[id]/stop/route.js";
    import { POST as answer } from "${routes}[id]/answer/route.js";
    ${CLIENT}
    const request = (body) => new Request("http://localhost", { method: "POST", body });
    console.log((await POST(request("{}"))).status, (await show(request(), at)).status);
    const replied = await POST(ask("m1", "Refund order 88."));
    const followed = await follow(request(), at);
    console.log(await said(replied), await said(followed));
    const { status, messages } = await (await show(request(), at)).json();
    console.log(status, messages.map(({ role }) => role).join());
    console.log((await follow(request(), at)).status, await (await stop(request(), at)).text(), (await answer(request("x"), at)).status);`,
  );
  expect(output.split("\n")).toEqual([
    "400 404",
    "Order 88 is refunded. Order 88 is refunded.",
    "completed user,assistant",
    '204 {"stopped":false} 409',
  ]);
});
