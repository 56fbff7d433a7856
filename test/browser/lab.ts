/** The inspector of a store in a real browser. */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { Savepoint } from "savepoint";
import { createInspector, type InspectorOptions, toNodeListener } from "savepoint/inspector";
import { afterAll, afterEach, beforeAll, expect, inject } from "vitest";
import { launchBrowser } from "./world/browser.mjs";
import { QUIET } from "./world/world.mjs";

export const TOKEN = "browser-0123456789abcdef";

let browser: Browser;
const closing: (() => unknown)[] = [];
/** Everything that a page must not do: errors, dialogs, and violations of the content security policy. */
const complaints: string[] = [];

beforeAll(async () => {
  browser = await launchBrowser();
});

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  expect(complaints.splice(0)).toEqual([]);
});

afterAll(async () => {
  await browser.close();
});

export function atEnd(close: () => unknown): void {
  closing.push(close);
}

/** A folder that is removed when the test ends. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-browser-test-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The URL of a copy of the store that was made by real runs. */
export function copyWorld(): string {
  const [from, to] = [inject("world"), newFolder()];
  for (const name of ["agents.db", "agents.db-wal"]) {
    if (existsSync(join(from, name))) copyFileSync(join(from, name), join(to, name));
  }
  return `sqlite:${join(to, "agents.db")}`;
}

export interface Site {
  readonly sp: Savepoint;
  readonly url: string;
  readonly origin: string;
}

/** Serves the inspector of a store. */
export async function serve(
  url: string = copyWorld(),
  { readOnly = false, ...options }: Partial<InspectorOptions> & { readonly readOnly?: boolean } = {},
): Promise<Site> {
  const sp = await Savepoint.open(url, { on: QUIET, ...(readOnly && { readOnly: true }) });
  atEnd(() => sp.close());
  return { sp, url, origin: await serveStore(sp, { write: !readOnly, ...options }) };
}

/** Serves the inspector of an open store. Returns the URL of its page, without the token. */
export async function serveStore(sp: Savepoint, options: Partial<InspectorOptions> = {}): Promise<string> {
  const server = await startServer(sp, 0, options);
  atEnd(() => server.close());
  return server.origin;
}

/** Starts a server that the test closes. */
export async function startServer(
  sp: Savepoint,
  port: number,
  options: Partial<InspectorOptions> = {},
): Promise<{ readonly origin: string; readonly port: number; readonly close: () => Promise<void> }> {
  const inspector = createInspector(sp, { token: TOKEN, ...options });
  const server = createServer(toNodeListener(inspector));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const { port: actual } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${actual}${options.basePath ?? ""}`,
    port: actual,
    async close() {
      await inspector.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Opens a view, signed in. The page must be silent until the test ends. */
export async function visit(
  origin: string,
  path = "/",
  options: BrowserContextOptions & { readonly expected?: RegExp } = {},
): Promise<Page> {
  const { expected, ...contextOptions } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...contextOptions });
  atEnd(() => context.close());
  const page = await context.newPage();
  const complain = (text: string): void => {
    if (!expected?.test(text)) complaints.push(text);
  };
  page.on("pageerror", (error) => complain(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complain(`console: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    complain(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(origin).origin) && !request.url().startsWith("data:")) {
      complain(`request: ${request.url()}`);
    }
  });
  await page.goto(`${origin}${path}#token=${TOKEN}`);
  await page.getByText("Live", { exact: true }).waitFor();
  await settle(page);
  return page;
}

/** Waits until nothing is loading. */
export async function settle(page: Page): Promise<void> {
  await expect.poll(() => page.locator(".skeleton").count(), { timeout: 15_000 }).toBe(0);
}
