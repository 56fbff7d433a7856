/** Long lists: only what is visible is loaded and drawn, and everything can be reached. */
import { join } from "node:path";
import { Savepoint } from "savepoint";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { atEnd, newFolder, serveStore, visit } from "./lab.js";

const MANY = 100_000;

async function openStore(): Promise<Savepoint> {
  const sp = await Savepoint.open(`sqlite:${join(newFolder(), "agents.db")}`, { durability: "process" });
  atEnd(() => sp.close());
  return sp;
}

/** Scrolls an element through all of its height, frame by frame. */
async function scrollThrough(page: Page, selector: string, frames: number): Promise<void> {
  await page.evaluate(
    async ([target, count]) => {
      const element = document.querySelector(target) as HTMLElement;
      for (let frame = 0; frame <= count; frame++) {
        element.scrollTop = (element.scrollHeight * frame) / count;
        await new Promise(requestAnimationFrame);
      }
    },
    [selector, frames] as const,
  );
}

describe("a session with 100,000 checkpoints", () => {
  it("scrolls to its end and is walked with the keyboard, with few rows in the document", async () => {
    const sp = await openStore();
    const session = sp.session("very-long", { agent: "walker" });
    for (let step = 0; step < MANY; step++) {
      await session.save({ step }, step % 1000 === 0 ? { label: `mile ${step / 1000}` } : {});
    }
    const page = await visit(await serveStore(sp), "/sessions/very-long");
    const list = page.getByRole("listbox");
    expect(await list.getAttribute("aria-label")).toContain("100,000");
    await scrollThrough(page, ".graph", 40);
    // The first checkpoint has the lowest number, and a label.
    await page.getByText("mile 0", { exact: true }).waitFor();
    const rows = await page.getByRole("option").count();
    expect(rows).toBeLessThan(60);
    await page.getByRole("option").last().click();
    await list.focus();
    const selected = (): Promise<string | null> => page.locator("[aria-selected=true] .graph-seq").textContent();
    await expect.poll(selected).toBe("0");
    await page.keyboard.press("ArrowUp");
    await expect.poll(selected).toBe("1");
    await page.keyboard.press("Home");
    await expect.poll(selected).toBe("99999");
    await page.getByRole("heading", { name: /^#99999/ }).waitFor();
  }, 1_200_000);
});

describe("a store with 100,000 sessions", () => {
  it("scrolls to its end, is filtered while typing and sorted, with few rows in the document", async () => {
    const sp = await openStore();
    for (let index = 0; index < MANY; index += 500) {
      await Promise.all(
        Array.from({ length: 500 }, (_, at) =>
          sp.session(`order-${index + at}`, { agent: `agent-${at % 7}` }).save({ at }),
        ),
      );
    }
    const page = await visit(await serveStore(sp));
    const count = page.locator(".view-count");
    await expect.poll(() => count.textContent(), { timeout: 60_000 }).toBe("100,000");
    await scrollThrough(page, ".table-body", 40);
    await page.locator('[aria-rowindex="100001"] a').waitFor();
    const rows = await page.locator(".table-body .table-row").count();
    expect(rows).toBeLessThan(60);
    await page.getByRole("searchbox").fill("order-7777");
    await expect.poll(() => count.textContent()).toBe("11 of 100,000");
    await page.getByRole("button", { name: "Session", exact: true }).click();
    await expect.poll(() => page.locator(".table-body .row-link").first().textContent()).toBe("order-7777");
    await page.getByRole("button", { name: "Session", exact: true }).click();
    await expect.poll(() => page.locator(".table-body .row-link").first().textContent()).toBe("order-77779");
  }, 1_200_000);
});
