// Chats with the SDK's own client: its transport, and the state machine behind `useChat()`, over HTTP.
import { describe, expect, it } from "vitest";
import type { UIMessage } from "ai";
import { z } from "zod";
import { type AiState, uiMessages } from "../../src/integrations/ai/index.js";
import type { Savepoint } from "../../src/index.js";
import { openLab, until } from "../run/lab.js";
import { ALL, answer, Reading, REPLY, serveChats, Teller, textOf } from "./chat.js";
import { call, text } from "./models.js";
import { Page } from "./page.js";
import { convertToModelMessages, DefaultChatTransport, readUIMessageStream, tool, VERSION } from "./sdk.js";

describe(`the client of AI SDK ${VERSION}`, () => {
  it("reconnects over HTTP", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    const api = await serveChats(
      sp,
      async ({ messages }) => (await answer(sp, teller, { turn: messages.at(-1)?.id as string })).response,
    );
    const transport = new DefaultChatTransport({ api });
    const message: UIMessage = { id: "m1", role: "user", parts: [{ type: "text", text: "count" }] };
    const trigger = "submit-message" as const;
    const stream = await transport.sendMessages({
      chatId: "s",
      messageId: undefined,
      abortSignal: undefined,
      trigger,
      messages: [message],
    });
    teller.say(2);
    await stream.cancel();
    const back = await transport.reconnectToStream({ chatId: "s" });
    teller.say(4);
    let last: UIMessage | undefined;
    for await (const each of readUIMessageStream({ stream: back as never })) last = each;
    expect(textOf(last as UIMessage)).toBe(ALL);
    expect(await transport.reconnectToStream({ chatId: "s" })).toBeNull();
  });

  it("shows the reply in progress after a reload, and the stored messages are those of the page that was not reloaded", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    const page = new Page(await serveAnswers(sp, teller));
    teller.say(2);
    void page.sendMessage({ text: "count" });
    await until(() => page.text === "one two ", "two words");
    const reloaded = await reload(sp, page);
    expect(reloaded.shown.map(({ role }) => role)).toEqual(["user"]);
    void reloaded.resumeStream();
    await until(() => reloaded.text === "one two ", "two words after the reload");
    teller.say(4);
    await Promise.all([page.untilReady(), reloaded.untilReady()]);
    expect(page.text).toBe(ALL);
    expect(reloaded.shown).toEqual(page.shown);
    expect(await uiMessages(sp.session<AiState>("s"))).toEqual(page.shown);
    expect(teller.calls).toBe(1);
  });

  it("answers approvals and calls of its own tools, and a reload in the reply after that shows the whole message", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const script = [
      [text("May I? "), call("c1", "pay", { euros: 12 })],
      [call("c2", "locate", {})],
      [text("Paid in Lisbon today.")],
    ];
    const teller = new Teller(script);
    const paid: unknown[] = [];
    const tools = {
      pay: tool({
        inputSchema: z.object({ euros: z.number() }),
        needsApproval: true,
        execute: async (input) => (paid.push(input), "paid"),
      }),
      locate: tool({ inputSchema: z.object({}), outputSchema: z.string() }),
    };
    const page = new Page(await serveAnswers(sp, teller, tools));
    teller.say(2);
    await page.sendMessage({ text: "pay" });
    const { approval } = (page.shown.at(-1)?.parts.at(-1) ?? {}) as { approval?: { id: string } };
    expect(await uiMessages(sp.session<AiState>("s"))).toEqual(page.shown);

    await page.addToolApprovalResponse({ id: approval?.id as string, approved: true });
    await until(() => page.shown.at(-1)?.parts.at(-1)?.type === "tool-locate", "the call of the page's tool");
    await page.untilReady();
    expect(paid).toEqual([{ euros: 12 }]);
    expect(await uiMessages(sp.session<AiState>("s"))).toEqual(page.shown);

    void page.addToolOutput({ tool: "locate", toolCallId: "c2", output: "Lisbon" });
    teller.say(4);
    await until(() => page.text === "May I? Paid in ", "the beginning of the last reply");
    const reloaded = await reload(sp, page);
    void reloaded.resumeStream();
    await until(
      () => reloaded.text === "May I? Paid in ",
      () => `the same after a reload, it is ${JSON.stringify([reloaded.shown, reloaded.error?.message])}`,
    );
    teller.say(9);
    await Promise.all([page.untilReady(), reloaded.untilReady()]);
    const stored = await uiMessages(sp.session<AiState>("s"));
    expect(stored.map(({ role }) => role)).toEqual(["user", "assistant"]);
    expect(textOf(stored[1] as UIMessage)).toBe("May I? Paid in Lisbon today.");
    expect(outline(page.shown)).toEqual(outline(stored));
    expect(outline(reloaded.shown)).toEqual(outline(stored));
    // An answer again, as after a lost connection, replays the recorded reply: also with what the page has got of it.
    const said = { 4: "", 5: "Paid in Lisbon today.", 7: "Paid in Lisbon today." };
    for (const [count, expected] of Object.entries(said)) {
      const [asked, reply] = page.shown as [UIMessage, UIMessage];
      const body = JSON.stringify({
        id: "s",
        messages: [asked, { ...reply, parts: reply.parts.slice(0, Number(count)) }],
      });
      const again = await new Reading(await fetch(page.api, { method: "POST", body })).ended;
      expect([count, again.text]).toEqual([count, expected]);
    }
    expect(teller.calls).toBe(3);
    const { messages = [] } = (await sp.session<AiState>("s").latest())?.state ?? {};
    expect(messages.map(({ role }) => role)).toEqual("user assistant tool tool assistant tool assistant".split(" "));
    expect((await sp.sessions.load("s"))?.status).toBe("completed");
  });

  it("an approval and the reply after it are one message, with the id of the first turn", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller([[call("c1", "pay", {})], [text("Paid.")]]);
    teller.say(9);
    const pay = { pay: tool({ inputSchema: z.object({}), needsApproval: true, execute: async () => "paid" }) };
    const first = await answer(sp, teller, {}, (run) => ({ tools: run.tools(pay) }) as never);
    const shown = await new Reading(first.response).message();
    await first.run.ended();
    const stored = await uiMessages(sp.session<AiState>("s"));
    const { approval } = (stored[1]?.parts.at(-1) ?? {}) as { approval?: { id: string } };
    expect(stored[1]).toMatchObject({ id: shown.id, parts: [{ type: "step-start" }, { state: "approval-requested" }] });
    const response = { type: "tool-approval-response", approvalId: approval?.id, approved: true };
    const options = { turn: "m2", messages: [{ role: "tool", content: [response] }] as never };
    const second = await answer(sp, teller, options, (run) => ({ tools: run.tools(pay) }) as never);
    await new Reading(second.response).ended;
    await second.run.ended();
    const messages = await uiMessages(sp.session<AiState>("s"));
    expect(messages.map(({ id }) => id)).toEqual(["m1", shown.id]);
    expect(messages[1]?.parts).toMatchObject([
      { type: "step-start" },
      { type: "tool-pay", state: "output-available", output: "paid", approval: { approved: true } },
      { type: "step-start" },
      { type: "text", text: "Paid." },
    ]);
  });
});

/** Answers as on docs/chat.md. */
function serveAnswers(sp: Savepoint, teller: Teller, tools: Record<string, object> = {}): Promise<string> {
  return serveChats(sp, async ({ id, messages }) => {
    const message = messages.at(-1) as UIMessage;
    const options = { session: id, turn: message.id, messages: await convertToModelMessages([message]) };
    return (await answer(sp, teller, options, (run) => ({ tools: run.tools(tools) }) as never)).response;
  });
}

/** A page that was loaded while the reply of another one is in progress. */
async function reload(sp: Savepoint, { api }: Page): Promise<Page> {
  return new Page(api, await uiMessages(sp.session<AiState>("s")));
}

/** The parts, without what tells an answered call from one that needed no answer. */
const outline = (messages: readonly UIMessage[]): unknown =>
  messages.map(({ id, role, parts }) => ({
    id,
    role,
    parts: parts.map(({ type, ...rest }) => [
      type,
      (rest as { text?: string }).text,
      (rest as { output?: unknown }).output,
    ]),
  }));
