/** `npm run goldens`: writes the golden stores of the current format. They are compared by goldens.test.ts. */
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { BUNDLE, GOLDEN_STORES, STORES_FOLDER } from "./golden-stores.js";
import { fillGolden } from "./golden-world.js";

const CHILD = fileURLToPath(new URL("./killed-child.mjs", import.meta.url));

it.each(GOLDEN_STORES)("writes the golden store of $name", async (golden) => {
  mkdirSync(STORES_FOLDER, { recursive: true });
  const place = await golden.prepare();
  const { url } = place;
  try {
    await fillGolden(url);
    await killIn(url, "killed in a model call", "model");
    await killIn(url, "killed in a tool", "tool");
    await golden.write(url);
    if (golden.name === "sqlite:") {
      const sp = await Savepoint.open(url);
      await sp.export({}).save(BUNDLE);
      await sp.close();
    }
  } finally {
    await place.remove();
  }
});

/** Runs the clerk in another process until it is in the middle of something, and kills it. */
async function killIn(url: string, session: string, place: "model" | "tool"): Promise<void> {
  const child = spawn(process.execPath, [CHILD, url, session, place], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<NodeJS.Signals | null>((resolve) => child.on("close", (_, signal) => resolve(signal)));
  createInterface(child.stdout).once("line", () => child.kill("SIGKILL"));
  expect(await ended).toBe("SIGKILL");
}
