/** A Chromium for the tests of a file. */
import chromium from "@sparticuz/chromium";
import { type Browser, chromium as driver } from "playwright-core";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

export interface Chromium {
  readonly browser: Browser;
  close(): Promise<void>;
}

/** Unpacks Chromium into a folder of its own, and starts it. */
export async function startChromium(): Promise<Chromium> {
  const folder = await makeFolder();
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = folder;
  const executablePath = await chromium.executablePath().finally(() => {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  });
  // In a single process, the browser would end with its first page.
  const args = chromium.args.filter((arg) => arg !== "--single-process");
  const browser = await driver.launch({ executablePath, args, headless: true });
  return {
    browser,
    close: async () => {
      await browser.close();
      await removeFolder(folder);
    },
  };
}
