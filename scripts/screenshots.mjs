// Takes the pictures of the inspector for the documentation: node scripts/screenshots.mjs [name …]   (after npm run build)
//
// It fills a store by real runs, serves it with the built inspector, and opens it in Chromium: light, dark, and in the width of a
// phone. Pictures are written into docs/images, as PNG with a palette, so that they stay small.
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Savepoint } from "savepoint";
import { createInspector, toNodeListener } from "savepoint/inspector";
import { launchBrowser } from "../test/browser/world/browser.mjs";
import { buildWorld, QUIET } from "../test/browser/world/world.mjs";

/** @import { AddressInfo } from "node:net" */
/** @import { Browser, Page } from "playwright-core" */

const images = fileURLToPath(new URL("../docs/images/", import.meta.url));
const TOKEN = "screenshots-0123456789abcdef";
/** Larger pictures slow the documentation down, in bytes. */
const MAX_BYTES = 150_000;

/**
 * A view, and what is done before its picture is taken.
 * @typedef {{ name: string, path: string, act?: (page: Page) => Promise<unknown>, themes?: readonly ("light" | "dark")[], phone?: boolean }} Shot
 */

/** @type {readonly Shot[]} */
const SHOTS = [
  { name: "sessions", path: "/", phone: true, themes: ["light", "dark"] },
  { name: "session", path: "/sessions/order-1046", phone: true, themes: ["light", "dark"] },
  {
    name: "unknown",
    path: "/sessions/order-1044",
    phone: true,
    themes: ["light"],
    act: (page) => page.getByText("It happened").first().click(),
  },
  { name: "changes", path: "/sessions/order-1046/checkpoints/4?view=changes", themes: ["light"] },
  { name: "timeline", path: "/sessions/fix-login/timeline", phone: true, themes: ["light", "dark"] },
  { name: "journal", path: "/sessions/order-1044/journal", themes: ["light"] },
  { name: "what-if", path: "/sessions/order-1046/checkpoints/4/edit", themes: ["light"], act: editAmount },
  { name: "questions", path: "/questions", phone: true, themes: ["light"] },
  { name: "queue", path: "/queue", themes: ["light"] },
  { name: "agent", path: "/agents/support", themes: ["light"] },
  { name: "search", path: "/search?text=refund", themes: ["light"] },
  { name: "store", path: "/store", phone: true, themes: ["light", "dark"] },
];

/** @param {Page} page */
async function editAmount(page) {
  await page.getByRole("button", { name: "Edit /order/amount", exact: true }).click();
  await page.getByLabel("Value", { exact: true }).fill("65");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("1 changed").waitFor();
}

const wanted = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "savepoint-screenshots-"));
// The page shows the URL of the store.
process.chdir(folder);
const url = "sqlite:./agents.db";
try {
  await buildWorld(url, { backups: "backups" });
  const sp = await Savepoint.open(url, { on: QUIET });
  const inspector = createInspector(sp, { token: TOKEN, write: true });
  const server = createServer(toNodeListener(inspector));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {AddressInfo} */ (server.address());
  const browser = await launchBrowser();
  mkdirSync(images, { recursive: true });
  for (const shot of SHOTS) {
    if (wanted.length > 0 && !wanted.includes(shot.name)) continue;
    for (const theme of shot.themes ?? []) await takePicture(browser, shot, port, theme, false);
    if (shot.phone) await takePicture(browser, shot, port, "light", true);
  }
  await browser.close();
  await inspector.close();
  server.closeAllConnections();
  server.close();
  await sp.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** @param {Browser} browser @param {Shot} shot @param {number} port @param {"light" | "dark"} theme @param {boolean} isPhone */
async function takePicture(browser, { name, path, act }, port, theme, isPhone) {
  const viewport = isPhone ? { width: 390, height: 780 } : { width: 1280, height: 760 };
  const context = await browser.newContext({ viewport, colorScheme: theme, reducedMotion: "reduce", locale: "en-GB" });
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${port}/#token=${TOKEN}`);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.goto(`http://127.0.0.1:${port}${path}`);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.locator(".skeleton, [aria-busy]").first().waitFor({ state: "detached" });
  if (act) await act(page);
  // Responses of the last clicks are drawn.
  await page.waitForLoadState("load");
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 400)));
  const file = join(images, `inspector-${name}-${isPhone ? "phone" : theme}.png`);
  await page.screenshot({ path: file });
  const { size } = statSync(file);
  if (size > MAX_BYTES) throw new Error(`${file} has ${size} bytes, more than ${MAX_BYTES}.`);
  console.log(`${file.slice(images.length)} ${Math.round(size / 1000)} kB`);
  await context.close();
}
