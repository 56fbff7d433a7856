/** Every view, on a store that was made by real runs: contents, accessibility, widths, and the keyboard. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { serve, settle, visit } from "./lab.js";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Each view, and a text that only it shows. */
const VIEWS: readonly (readonly [path: string, text: string])[] = [
  ["/", "order-1043"],
  ["/sessions/order-1046", "store-credit"],
  ["/sessions/order-1046/checkpoints/2", "refund issued"],
  ["/sessions/order-1046/checkpoints/2?view=state", "windowDays"],
  ["/sessions/order-1046/checkpoints/2?view=both", "windowDays"],
  ["/sessions/order-1046/checkpoints/2?view=changes", "/order/status"],
  ["/sessions/order-1046/checkpoints/4?view=changes&from=1", "/order/status"],
  ["/sessions/order-1044", "It happened"],
  ["/sessions/order-1045", "card_token"],
  ["/sessions/fix-login/timeline", "git_commit"],
  ["/sessions/wind-report/timeline", "Resumed after"],
  ["/sessions/order-1044/timeline", "outcome unknown"],
  ["/sessions/order-1044/journal", "Idempotency key"],
  ["/sessions/order-1046/checkpoints/2/edit", "Edit and fork"],
  ["/questions", "Priya Shah"],
  ["/queue", "order-1049"],
  ["/conversations", "Where is my parasol?"],
  ["/conversations/chat-ada", "Please refund me"],
  ["/agents", "Support"],
  ["/agents/support", "before the new prompt"],
  ["/search?text=parasol", "chat-ada"],
  ["/store", "Growth"],
  ["/store/retention", "Preview"],
  ["/store/damage", "Verify the store"],
];

async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(axeSource);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(
          options: object,
        ): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
      };
    };
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations } = await axe.run({ runOnly: { type: "tag", values: tags } });
    return violations.flatMap(({ id, nodes }) =>
      nodes
        .slice(0, 3)
        .map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary.slice(0, 250)}`),
    );
  });
}

async function show(page: Page, origin: string, path: string, text: string): Promise<void> {
  await page.goto(`${origin}${path}`);
  await page.getByText(text).filter({ visible: true }).first().waitFor();
  await settle(page);
}

describe("every view", () => {
  it.each(["light", "dark"] as const)(
    "has no violation of axe-core in %s mode, and shows its data",
    async (colorScheme) => {
      const { origin } = await serve();
      const page = await visit(origin, "/", { colorScheme, bypassCSP: true });
      const found: string[] = [];
      for (const [path, text] of VIEWS) {
        await show(page, origin, path, text);
        found.push(...(await violationsOf(page)).map((each) => `${path}: ${each}`));
      }
      expect(found).toEqual([]);
    },
  );

  it("fits a window of 390 pixels, without scrolling sideways", async () => {
    const { origin } = await serve();
    const page = await visit(origin, "/", { viewport: { width: 390, height: 780 }, hasTouch: true });
    const wide: string[] = [];
    for (const [path, text] of VIEWS) {
      await page.goto(`${origin}${path}`);
      await settle(page);
      await page.getByText(text).first().waitFor({ state: "attached" });
      const { scroll, client } = await page.evaluate(() => {
        const main = document.querySelector("main") as HTMLElement;
        const inner = [
          ...main.querySelectorAll<HTMLElement>(".scroll, .checkpoint-body, .graph, .table-body, .what-if"),
        ];
        const widest = Math.max(...[main, ...inner].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth));
        return { scroll: document.documentElement.scrollWidth + Math.max(0, widest), client: innerWidth };
      });
      if (scroll > client) wide.push(`${path}: ${scroll}`);
    }
    expect(wide).toEqual([]);
  });

  it("has a URL: the back button and a reload lead to it", async () => {
    const { origin } = await serve();
    const page = await visit(origin);
    await page.getByRole("link", { name: "order-1046" }).click();
    await page.getByRole("option", { name: /refund issued/ }).click();
    expect(new URL(page.url()).pathname).toBe("/sessions/order-1046/checkpoints/2");
    await page.reload();
    await page.getByRole("heading", { name: "#2 refund issued" }).waitFor();
    await page.goBack();
    expect(new URL(page.url()).pathname).toBe("/sessions/order-1046");
    await page.goBack();
    await page.getByRole("heading", { name: "Sessions" }).waitFor();
    expect(new URL(page.url()).hash).toBe("");
  });

  it("works below a base path", async () => {
    const { origin } = await serve(undefined, { basePath: "/ops/agents" });
    const page = await visit(origin, "/sessions/order-1046/timeline");
    await page.getByText("issue_refund").first().waitFor();
    await page.getByRole("link", { name: "Sessions", exact: true }).first().click();
    await page.getByText("order-1043").first().waitFor();
    expect(new URL(page.url()).pathname).toBe("/ops/agents/");
  });
});

describe("the token", () => {
  it("leaves the URL at once, survives a reload, and a tab without it asks for it", async () => {
    const { origin } = await serve();
    const page = await visit(origin, "/", { expected: /401/ });
    expect(page.url()).not.toContain("token");
    await page.reload();
    await page.getByText("order-1043").first().waitFor();
    // Another tab of the inspector gets it from this one.
    const second = await page.context().newPage();
    await second.goto(`${origin}/sessions/order-1043`);
    await second.getByText("The agent asks").waitFor();
    await page.close();
    await second.close();
    const stranger = await page.context().newPage();
    await stranger.goto(`${origin}/`);
    await stranger.getByText("Open the inspector with its URL").waitFor();
    await stranger.getByLabel("Or paste the URL here").fill(`${origin}/#token=browser-0123456789abcdef`);
    await stranger.getByRole("button", { name: "Open" }).click();
    await stranger.getByText("order-1043").first().waitFor();
  });
});

describe("the keyboard", () => {
  it("is sufficient: skip link, rows, checkpoints, dialogs and help", async () => {
    const { origin } = await serve();
    const page = await visit(origin);
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to content");
    await page.keyboard.press("Enter");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("content");
    await page.keyboard.press("/");
    await page.keyboard.type("order-104");
    await expect.poll(() => page.getByRole("status").filter({ hasText: "of 47" }).textContent()).toBe("8 of 47");
    await page.getByRole("link", { name: "order-1044" }).focus();
    await page.keyboard.press("ArrowDown");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("order-1043");
    await page.keyboard.press("End");
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("order-1042");
    await page.keyboard.press("Enter");
    await page.getByRole("listbox").focus();
    const selected = (): Promise<string | null> =>
      page.locator("[role=option][aria-selected=true] .graph-seq").textContent();
    await expect.poll(selected).toBe("4");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await expect.poll(selected).toBe("2");
    await page.getByRole("heading", { name: /^#2/ }).waitFor();
    await page.keyboard.press("Home");
    await expect.poll(selected).toBe("4");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    // The focus returns a moment after the dialog is gone.
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("role"))).toBe("listbox");
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.getByRole("heading", { name: "Questions" }).waitFor();
  });

  it("shows where the focus is", async () => {
    const { origin } = await serve();
    const page = await visit(origin, "/sessions/order-1046/checkpoints/2");
    const hidden: string[] = [];
    for (let index = 0; index < 60; index++) {
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(() => {
        const element = document.activeElement as HTMLElement;
        const styles = [getComputedStyle(element), getComputedStyle(element, "::after")];
        const isVisible = styles.some(
          ({ outlineStyle, outlineWidth }) => outlineStyle !== "none" && outlineWidth !== "0px",
        );
        return { isVisible, html: element.outerHTML.slice(0, 120), isBody: element === document.body };
      });
      if (focus.isBody) break;
      if (!focus.isVisible) hidden.push(focus.html);
    }
    expect(hidden).toEqual([]);
  });
});
