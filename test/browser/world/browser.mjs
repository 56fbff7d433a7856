// Chromium from an npm package.
import chromium from "@sparticuz/chromium";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium as playwright } from "playwright-core";

/** Arguments of the package that make the browser less strict than those of users, or less stable. */
const REMOVED = ["--disable-web-security", "--allow-running-insecure-content", "--single-process", "--no-zygote"];

/** The font of the package first, so that pictures depend less on the machine; those of the machine for other characters. */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${tmpdir()}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${tmpdir()}/fonts-cache</cachedir>
  <alias binding="strong"><family>system-ui</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias binding="strong"><family>sans-serif</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias binding="strong"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
`;

/** Starts the browser. */
export async function launchBrowser() {
  const executablePath = await chromium.executablePath();
  const fonts = join(tmpdir(), "savepoint-browser-fonts");
  mkdirSync(fonts, { recursive: true });
  writeFileSync(join(fonts, "fonts.conf"), FONTS);
  return playwright.launch({
    executablePath,
    headless: true,
    args: [...chromium.args.filter((each) => !REMOVED.some((name) => each.startsWith(name))), "--no-sandbox"],
    // The fonts of the package, so that pictures do not depend on the machine.
    env: { ...process.env, FONTCONFIG_FILE: join(fonts, "fonts.conf") },
  });
}
