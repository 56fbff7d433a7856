/** What a person settles and tries in the page: answers, edits, forks, rewinds, labels; and runs of other processes, live. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { atEnd, copyWorld, serve, settle, startServer, visit } from "./lab.js";
import { refunds } from "./world/agents.mjs";

describe("a question", () => {
  it("about an unknown outcome is answered in the page, and the run completes with the given result", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin);
    // What waits for an answer is first.
    await page.getByRole("link", { name: "order-1044" }).click();
    await page.getByText("It happened", { exact: true }).click();
    await page.getByRole("button", { name: "JSON" }).click();
    await page
      .getByRole("textbox", { name: "What the tool returned" })
      .fill('{"refund":"re_from_bank","state":"succeeded"}');
    await page.getByRole("button", { name: "Record this result" }).click();
    await page.getByText("Answered.").waitFor();
    await page.locator(".session-line").getByText("queued").waitFor();
    await sp.recover([refunds]);
    await page.locator(".session-line").getByText("completed").waitFor();
    await page
      .getByRole("option", { name: /Completed/ })
      .first()
      .waitFor();
    await page.goto(`${origin}/sessions/order-1044/journal`);
    await page.getByText("answered").first().waitFor();
    await page.getByText("re_from_bank").first().waitFor();
  });

  it("whose tool did not run makes the tool run again, and one that failed gives the agent an error", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/questions");
    await page.getByText("It did not", { exact: true }).click();
    await page.getByRole("button", { name: "Call it again" }).click();
    await expect.poll(async () => (await sp.sessions.load("order-1044"))?.status).toBe("queued");
    await sp.recover([refunds]);
    await expect
      .poll(async () => (await sp.sessions.load("order-1044"))?.status, { timeout: 10_000 })
      .toBe("completed");
    const second = await visit((await serve()).origin, "/sessions/order-1044");
    await second.getByText("Fail", { exact: true }).click();
    await second.getByLabel("Error message").fill("The bank has rejected it.");
    await second.getByRole("button", { name: "Let it fail" }).click();
    await second.getByText("Answered.").waitFor();
  });

  it("of an agent is answered with one of its choices", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/sessions/order-1043");
    await page.getByRole("button", { name: "approve" }).click();
    await page.getByText("Answered.").waitFor();
    await sp.recover([refunds]);
    await page.locator(".session-line").getByText("completed").waitFor();
    await page.getByText("Approved by a person.").waitFor();
  });
});

describe("tool calls without a result", () => {
  it("in saved messages get a result, and the others are removed", async () => {
    const { origin, sp } = await serve();
    const toolCalls = [
      { id: "c1", name: "charge", arguments: { amount: 9 } },
      { id: "c2", name: "mail", arguments: {} },
    ];
    const messages = [
      { role: "user", content: "Charge me." },
      { role: "assistant", content: "I charge.", toolCalls },
    ];
    await sp.session("chat").save({ messages });
    const page = await visit(origin, "/sessions/chat");
    await page.getByRole("textbox", { name: "What charge returned" }).fill("paid");
    await page.getByRole("button", { name: "Record this result" }).first().click();
    await page.getByRole("heading", { name: "1 tool call without a result" }).waitFor();
    await page.getByRole("button", { name: "Remove the call" }).click();
    await page.getByRole("region", { name: "Tool calls without a result" }).waitFor({ state: "detached" });
    const head = await sp.session("chat").latest();
    expect(head?.pendingToolCalls).toEqual([]);
    expect(JSON.stringify(head?.state)).toContain("paid");
  });
});

describe("what if", () => {
  it("edits a value in place, shows the difference, forks, and opens the fork", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/sessions/order-1046/checkpoints/2");
    await page.getByRole("link", { name: "Edit and fork" }).click();
    await page.getByRole("button", { name: "Edit /order/amount", exact: true }).click();
    await page.getByLabel("Value", { exact: true }).fill("12.5");
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByRole("button", { name: "Remove /input", exact: true }).click();
    await page.getByText("1 changed").waitFor();
    await page.getByText("1 removed").waitFor();
    await page.getByLabel("Name of the branch").fill("cheap");
    await page.getByLabel("Label (optional)").fill("cheaper");
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    await page.getByRole("heading", { name: /cheaper/ }).waitFor();
    expect(new URL(page.url()).searchParams.get("branch")).toBe("cheap");
    const head = await sp.session("order-1046", { branch: "cheap" }).latest();
    expect(head?.state).toMatchObject({ order: { amount: 12.5 } });
    expect(head?.state).not.toHaveProperty("input");
  });

  it("replaces the result of a tool", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/sessions/order-1042/journal");
    await page.getByRole("button", { name: /^issue_refund/ }).click();
    await page.getByRole("link", { name: "What if it had returned something else?" }).click();
    await page.getByRole("textbox", { name: "Result" }).fill('{"state":"declined"}');
    await page.getByLabel("Name of the branch").fill("declined");
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    await page.getByText("Forked branch declined.").waitFor();
    await sp.run(refunds, { session: "order-1042", branch: "declined" });
    const state = (await sp.session("order-1042", { branch: "declined" }).latest())?.state as {
      messages: { content: string }[];
    };
    expect(state.messages.some(({ content }) => content === '{"state":"declined"}')).toBe(true);
  });
});

describe("actions", () => {
  it("label, pin and rewind, and show the tool calls after the checkpoint", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/sessions/order-1042/checkpoints/1");
    await page.getByRole("button", { name: "Label" }).click();
    await page.getByRole("dialog").getByLabel("Label").fill("before the refund");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "#1 before the refund" }).waitFor();
    await page.getByRole("option", { name: /before the refund/ }).waitFor();
    await page.getByRole("button", { name: "Pin", exact: true }).click();
    await page.getByRole("button", { name: "Unpin", exact: true }).waitFor();
    await page.getByRole("button", { name: "Rewind" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("issue_refund").waitFor();
    await dialog.getByText("send_mail").waitFor();
    await dialog.getByRole("button", { name: "Rewind" }).click();
    await page.getByRole("option", { name: /Rewound/ }).waitFor();
    const info = await sp.sessions.load("order-1042");
    expect(info?.status).toBe("halted");
  });

  it("cancel a queued run, and resume it", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/sessions/order-1043");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").getByLabel("Reason (optional)").fill("Not today");
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the run" }).click();
    await page.getByText("Not today").first().waitFor();
    await expect.poll(async () => (await sp.sessions.load("order-1043"))?.status).toBe("halted");
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator(".session-line").getByText("queued").waitFor();
  });
});

describe("the store", () => {
  it("is verified, and shows what a retention policy would remove, without removing anything", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/store/damage");
    await page.getByRole("button", { name: "Verify the store" }).click();
    await page.getByText("No problem was found").waitFor();
    await page.getByRole("link", { name: "Retention" }).click();
    await page.getByLabel("Newest of each branch").fill("1");
    await page.getByLabel("One session").fill("order-1046");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("of 12 checkpoints").waitFor();
    await page.getByText("the head of a branch").waitFor();
    expect((await sp.sessions.load("order-1046"))?.checkpoints).toBe(12);
  });

  it("restores an agent with its conversations after it has shown what changes", async () => {
    const { origin, sp } = await serve();
    const page = await visit(origin, "/agents/support");
    await page.getByRole("link", { name: "Restore …" }).click();
    await page.getByText("5 → 3 messages").waitFor();
    await page.getByText("/systemPrompt").waitFor();
    await page.getByRole("button", { name: "Restore" }).click();
    await page.getByText("Restored. To undo it").waitFor();
    expect((await sp.conversations.load("chat-ada"))?.messageCount).toBe(3);
  });
});

describe("a run of another process", () => {
  it("is shown live, including its crash", async () => {
    const url = copyWorld();
    const { origin } = await serve(url);
    const list = await visit(origin);
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL("world/worker.mjs", import.meta.url)), url, "long-walk"],
      {
        stdio: ["ignore", "inherit", "inherit"],
      },
    );
    const closed = once(child, "close");
    atEnd(() => child.kill("SIGKILL"));
    // The list and the session change without a reload.
    await list.getByRole("link", { name: "long-walk" }).waitFor();
    const page = await visit(origin, "/sessions/long-walk");
    await page.locator(".session-line").getByText("running").waitFor();
    const count = async (): Promise<number> =>
      Number((await page.getByRole("listbox").getAttribute("aria-label"))?.replaceAll(/\D/g, ""));
    const before = await count();
    await expect.poll(count, { timeout: 15_000 }).toBeGreaterThan(before + 3);
    await page.getByRole("link", { name: "Timeline" }).click();
    await expect.poll(() => page.locator(".span").count(), { timeout: 15_000 }).toBeGreaterThan(before + 5);
    child.kill("SIGKILL");
    await closed;
    await page.locator(".session-line").getByText("interrupted").waitFor();
    await list.locator(".table-row", { hasText: "long-walk" }).getByText("interrupted").waitFor();
    await settle(list);
  });

  it("is shown live again after a restart of the inspector", async () => {
    const { sp } = await serve();
    const first = await startServer(sp, 0);
    const page = await visit(first.origin, "/", { expected: /ERR_|Failed to load/ });
    await first.close();
    await page.getByText("Reconnecting").waitFor();
    await sp.session("saved-meanwhile", { agent: "refunds" }).save({});
    const second = await startServer(sp, first.port);
    atEnd(() => second.close());
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByRole("searchbox").fill("saved-mean");
    await page.getByRole("link", { name: "saved-meanwhile" }).waitFor();
  });
});
