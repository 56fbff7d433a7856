/** The page of `savepoint ui` in a real browser, in short: `npm run test:browser` tries all of it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, it } from "vitest";
import { launchBrowser } from "../browser/world/browser.mjs";
import { message } from "../../src/index.js";
import { PROGRAM } from "../cli/command.js";
import { atEnd, newFolder, open, useCleanup } from "./lab.js";

useCleanup();

it("the page of `savepoint ui` lists sessions and shows a checkpoint, without an error", async () => {
  const url = `sqlite:${join(newFolder(), "agents.db")}`;
  const sp = await open(url);
  await sp.session("order-88", { agent: "shop" }).save({
    messages: [message.user("Refund order 88"), message.assistant("<b>Done</b>")],
  });
  await sp.close();

  const args = [PROGRAM, "ui", "--store", url, "--port", "0", "--no-open"];
  const server = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
  const closed = once(server, "close");
  atEnd(async () => {
    server.kill("SIGKILL");
    await closed;
  });
  const [browser, [line]] = await Promise.all([launchBrowser(), once(server.stdout, "data")]);
  atEnd(() => browser.close());

  const page = await browser.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (each) => each.type() === "error" && errors.push(each.text()));
  await page.goto(String(line).trim());
  await page.getByText("Read-only", { exact: true }).waitFor();
  await page.getByRole("link", { name: "order-88" }).click();
  await page.getByText("<b>Done</b>").waitFor();
  expect(page.url()).toMatch(/\/sessions\/order-88$/);
  expect(errors).toEqual([]);
});
