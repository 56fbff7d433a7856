/** Texts of users and models that attack the page, and an inspector that must not change anything. */
import { message, Savepoint } from "savepoint";
import { describe, expect, it } from "vitest";
import { atEnd, serve, serveStore, settle, visit } from "./lab.js";

const ATTACKS = [
  `<script>alert(1)</script>`,
  `<img src=x onerror=alert(2)>`,
  `"><svg onload=alert(3)>`,
  `javascript:alert(4)`,
  `</textarea><iframe srcdoc="<script>alert(5)</script>">`,
  `{{constructor.constructor('alert(6)')()}}`,
  `<style>*{display:none}</style>`,
  `<a href="https://evil.example" ping="https://evil.example">x</a>`,
];
const ATTACK = ATTACKS.join(" ");
/** Ids must survive URLs, and texts must survive control characters, other directions and other planes. */
const IDS = [
  "..",
  ".",
  "~",
  "a/b?c#d",
  "%2e%2e%2f",
  "<img src=x onerror=alert(7)>",
  "सत्र 🌲",
  "__proto__",
  "constructor",
];

async function hostileStore(): Promise<Savepoint> {
  const sp = await Savepoint.open("memory:");
  atEnd(() => sp.close());
  for (const id of IDS) {
    await sp.session(id, { agent: ATTACKS[1] ?? "" }).save(
      {
        [ATTACK]: ATTACK,
        ["__proto__x"]: { polluted: true },
        messages: [
          message.system(ATTACK),
          message.user(`${ATTACK}\u202Egnp.exe\u0000\u001B[31m`),
          message.assistant(ATTACK, [{ id: ATTACK, name: ATTACK, arguments: { [ATTACK]: ATTACK } }]),
          message.toolResult(ATTACK, ATTACK),
        ],
      },
      { label: ATTACK, trigger: ATTACK, description: ATTACK, reason: ATTACK, resumeHint: ATTACK, status: "failed" },
    );
  }
  await sp.conversations.create({
    id: "<b>chat</b>",
    title: ATTACK,
    tags: [ATTACKS[0] ?? ""],
    metadata: { [ATTACK]: ATTACK },
  });
  await sp.conversations.append("<b>chat</b>", [message.user(ATTACK)]);
  await sp.agents.save({
    id: "bad",
    name: ATTACK,
    systemPrompt: ATTACK,
    capabilities: [ATTACK],
    config: { [ATTACK]: ATTACK },
  });
  return sp;
}

describe("hostile texts", () => {
  it("are shown as text in every view: no dialog, no request, no violation of the policy", async () => {
    const sp = await hostileStore();
    const origin = await serveStore(sp, { write: true });
    // One of the views is that of a session that does not exist.
    const page = await visit(origin, "/", { expected: /status of 404/ });
    const session = encodeURIComponent("<img src=x onerror=alert(7)>");
    const views = [
      "/",
      `/?query=${encodeURIComponent(ATTACK)}`,
      `/sessions/${session}`,
      `/sessions/${session}/checkpoints/0?view=state`,
      `/sessions/${session}/checkpoints/0?view=changes`,
      `/sessions/${session}/checkpoints/0/edit`,
      `/sessions/${session}/journal`,
      `/sessions/${encodeURIComponent("<b>not there</b>")}`,
      `/conversations`,
      `/conversations/${encodeURIComponent("<b>chat</b>")}`,
      `/agents/bad`,
      `/search?text=alert`,
      `/store`,
      `/${encodeURIComponent(ATTACK)}`,
    ];
    for (const view of views) {
      await page.goto(`${origin}${view}`);
      await settle(page);
      const injected = await page.evaluate(
        () => document.querySelectorAll("main script, main img, main iframe, main style, main [onerror]").length,
      );
      expect(injected, view).toBe(0);
    }
    await page.goto(`${origin}/sessions/${session}`);
    await page.getByText("<script>alert(1)</script>").first().waitFor();
    await page.locator("details.tool-call summary").first().click();
    await page.getByText("Arguments").waitFor();
    expect(await page.evaluate(() => ({}) as Record<string, unknown>)).not.toHaveProperty("polluted");
  }, 90_000);

  it("as ids lead to their own sessions", async () => {
    const sp = await hostileStore();
    const origin = await serveStore(sp);
    const page = await visit(origin);
    for (const id of IDS) {
      await page.goto(`${origin}/?query=${encodeURIComponent(id)}`);
      await settle(page);
      await page.getByRole("link", { name: id, exact: true }).first().click();
      await expect.poll(() => page.locator("h1").textContent(), { message: id }).toBe(id);
      await page.reload();
      await expect.poll(() => page.locator("h1").textContent(), { message: id }).toBe(id);
    }
  });

  it("cannot put HTML into the page even where its own code would: trusted types refuse it", async () => {
    const origin = await serveStore(await hostileStore());
    const page = await visit(origin, "/", { expected: /TrustedHTML|Trusted Type/ });
    const refused = await page.evaluate(() => {
      try {
        document.body.innerHTML = "<b>x</b>";
        return "accepted";
      } catch (error) {
        return (error as Error).name;
      }
    });
    expect(refused).toBe("TypeError");
  });
});

describe("a read-only inspector", () => {
  it("disables all buttons that change something, and explains why", async () => {
    const { origin } = await serve(undefined, { readOnly: true });
    const page = await visit(origin, "/sessions/order-1046/checkpoints/2");
    const writes: string[] = [];
    page.on("request", (request) => {
      if (request.method() === "POST") writes.push(request.url());
    });
    await page.getByText("Read-only", { exact: true }).waitFor();
    for (const name of ["Edit and fork", "Rewind", "Label", "Unpin"]) {
      const button = page.getByRole("button", { name, exact: true });
      expect(await button.getAttribute("aria-disabled"), name).toBe("true");
      expect(await button.getAttribute("title"), name).toContain("savepoint ui --write");
      await button.click({ force: true });
    }
    await page.getByText("This inspector is read-only").first().waitFor();
    await page.goto(`${origin}/sessions/order-1044`);
    await page.getByText("npx savepoint answer order-1044").waitFor();
    expect(await page.getByText("It happened").count()).toBe(0);
    await page.goto(`${origin}/sessions/order-1046/checkpoints/2/edit`);
    await page.getByRole("button", { name: "Edit /order/amount", exact: true }).click();
    await page.getByLabel("Value", { exact: true }).fill("1");
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByText("1 changed").waitFor();
    await page.getByRole("button", { name: "Fork", exact: true }).click({ force: true });
    expect(writes.filter((each) => !each.endsWith("/preview"))).toEqual([]);
  });

  it("also rejects a write that the page does not offer", async () => {
    const { origin } = await serve(undefined, { readOnly: true });
    const page = await visit(origin, "/", { expected: /403/ });
    const answer = await page.evaluate(async () => {
      const token = Object.values(sessionStorage)[0] as string;
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const response = await fetch("/api/sessions/order-1043/cancel", { method: "POST", headers, body: "{}" });
      return `${response.status} ${((await response.json()) as { error: { code: string } }).error.code}`;
    });
    expect(answer).toBe("403 READ_ONLY");
  });
});
