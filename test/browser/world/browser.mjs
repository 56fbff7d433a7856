// Chromium from an npm package.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import chromium from "@sparticuz/chromium";
import { chromium as playwright } from "playwright-core";

/** Where the browser is unpacked, once: that takes seconds. */
const cache = fileURLToPath(new URL("../../../node_modules/.cache/savepoint-chromium", import.meta.url));

/** Arguments of the package that make the browser less strict than those of users, or less stable. */
const REMOVED = ["--disable-web-security", "--allow-running-insecure-content", "--single-process", "--no-zygote"];

/** The font of the package first, so that pictures depend less on the machine; those of the machine for other characters. */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${join(cache, "fonts")}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${join(cache, "fonts-cache")}</cachedir>
  <alias binding="strong"><family>system-ui</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias binding="strong"><family>sans-serif</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias binding="strong"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
`;

/** Starts the browser. */
export async function launchBrowser() {
  if (!existsSync(join(cache, "fonts.conf"))) await unpack();
  return playwright.launch({
    executablePath: join(cache, "chromium"),
    headless: true,
    args: [...chromium.args.filter((each) => !REMOVED.some((name) => each.startsWith(name))), "--no-sandbox"],
    env: { ...process.env, FONTCONFIG_FILE: join(cache, "fonts.conf") },
  });
}

/** Unpacks the browser beside its place, and moves it there when it is complete. The package unpacks into the temporary folder. */
async function unpack() {
  const folder = `${cache}-${process.pid}`;
  mkdirSync(folder, { recursive: true });
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = folder;
  try {
    await chromium.executablePath();
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  }
  writeFileSync(join(folder, "fonts.conf"), FONTS);
  mkdirSync(dirname(cache), { recursive: true });
  try {
    renameSync(folder, cache);
  } catch (error) {
    // Another process was faster.
    rmSync(folder, { recursive: true, force: true });
    if (!existsSync(join(cache, "fonts.conf"))) throw error;
  }
}
