/**
 * Servers of chats that are killed while they stream, and the pages that read them: one that has sent the message and reconnects,
 * and one that follows the reply through another server.
 */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { UIMessage } from "ai";
import { expect } from "vitest";
import { textOf } from "../ai/chat.js";
import { Page } from "../ai/page.js";
import { Child, Victims } from "../run-crash/children.js";
import { temporaryFolder } from "../run-crash/folders.js";
import type { Death } from "../run-crash/world.mjs";
import { until } from "../support/until.mjs";
import type { ChatVariant } from "./chat-child.mjs";

export type { ChatVariant };

const program = fileURLToPath(new URL("./chat-child.mjs", import.meta.url));
/** Version 7 needs a newer Node than the oldest that Savepoint supports. */
const currentNode = fileURLToPath(new URL("../../node_modules/node/bin/node", import.meta.url));
const createChild = (sdk: 6 | 7): Child => new Child(program, sdk === 7 ? currentNode : process.execPath);

/** How often each point is passed by a reply that nothing interrupts. */
export async function countPasses(variant: ChatVariant): Promise<Map<string, number>> {
  const child = createChild(variant.sdk);
  const page = new WatchedPage(await jobOf(child, "serve", temporaryFolder(), variant));
  await page.sendMessage({ text: "charge" });
  await page.untilReady();
  const passed = new Map((await jobOf(child, "close")) as never);
  await child.kill();
  return passed as Map<string, number>;
}

/** Kills a server at each of these points, and lets another one resume. Returns how often the point was reached. */
export async function killServers(variant: ChatVariant, deaths: readonly Death[]): Promise<number> {
  const root = temporaryFolder();
  const [victims, survivor] = [new Victims(() => createChild(variant.sdk)), createChild(variant.sdk)];
  const failures: string[] = [];
  let killed = 0;
  for (const death of deaths) {
    const folder = mkdtempSync(join(root, "killed-"));
    try {
      if (await killServer(victims.take(), survivor, folder, variant, death)) killed++;
      rmSync(folder, { recursive: true, force: true });
    } catch (error) {
      failures.push(`${JSON.stringify(variant)} killed at ${JSON.stringify(death)}: ${(error as Error).stack}`);
    }
    await survivor.do("close");
  }
  await Promise.all([victims.close(), survivor.kill()]);
  expect(failures).toEqual([]);
  return killed;
}

async function killServer(
  victim: Child,
  survivor: Child,
  folder: string,
  variant: ChatVariant,
  death: Death,
): Promise<boolean> {
  const end = await victim.do("serve", folder, variant, death);
  const api = await jobOf(survivor, "serve", folder, variant);
  const page = new WatchedPage("done" in end ? (end.done as string) : api);
  let isSent = false;
  const sent = page.sendMessage({ text: "charge" }).finally(() => (isSent = true));
  // A page that was loaded meanwhile, from another server.
  const follower = new WatchedPage(api);
  const following = until(async () => {
    if (isSent) return "the reply has ended";
    await follower.resumeStream();
    return follower.messages.length > 0 || undefined;
  }, "a reply to follow");
  await sent;
  const isKilled = page.status === "error" || !("done" in end);
  await victim.kill();
  await jobOf(survivor, "resume");
  await following;
  // It continues if the model says the same again; otherwise its connection is broken off.
  if (variant.words === "same") assert.equal(follower.error, undefined);
  for (const each of [page, follower]) if (each === page ? isKilled : each.status === "error") await reload(each, api);
  const { status, messages } = await stored(api);
  assert.equal(status, "completed");
  const log = readFileSync(join(folder, "world.log"), "utf8").trim().split("\n");
  // Only the call that was cut off is made again.
  const asked = log.filter((line) => line.startsWith("asked")).length;
  assert.ok(asked <= (isKilled ? 3 : 2), `the model was asked ${asked} times`);
  assert.ok(log.filter((line) => line === "charged").length <= 2);
  check(messages);
  for (const { messages: shown, status: at, problems } of [page, follower]) {
    assert.equal(at, "ready");
    assert.deepEqual(problems, [], "a page has shown this");
    if (shown.length > 0) assert.deepEqual(outline(shown.slice(-1)), outline(messages.slice(-1)));
  }
  assert.ok(page.messages.length === 2);
  return isKilled;
}

/** Reloads a page: it shows what is stored, and follows the reply in progress. If its message was never stored, it sends it again. */
async function reload(page: WatchedPage, api: string): Promise<void> {
  page.move(api);
  const { status, messages } = await stored(api);
  if (status === "none") await page.sendMessage();
  else {
    page.messages = messages;
    await page.resumeStream();
    // The reply was completed in between.
    if (page.messages.length < 2) page.messages = (await stored(api)).messages;
  }
  await page.untilReady();
}

async function stored(api: string): Promise<{ status: string; messages: UIMessage[] }> {
  return (await (await fetch(api)).json()) as never;
}

async function jobOf(child: Child, job: string, ...args: unknown[]): Promise<string> {
  const end = await child.do(job, ...args);
  assert.ok("done" in end, JSON.stringify(end));
  return end.done as string;
}

/** A page whose every state is checked. */
class WatchedPage extends Page {
  readonly problems: string[];

  constructor(api: string) {
    const problems: string[] = [];
    super(api, [], (messages) => {
      for (const message of messages) {
        if (message.role === "assistant" && !isCoherent(textOf(message))) problems.push(textOf(message));
      }
    });
    this.problems = problems;
  }
}

/** Whether a reply shows the words of each call in order, from the first one, and all of one attempt. */
function isCoherent(said: string): boolean {
  const next = new Map<string, number>();
  const marks = new Map<string, string>();
  for (const word of said.split(" ").filter((each) => each !== "")) {
    const [call = "", n, mark = ""] = word.split(".");
    const expected = next.get(call) ?? 0;
    if (Number(n) !== expected || (marks.get(call) ?? mark) !== mark) return false;
    next.set(call, expected + 1);
    marks.set(call, mark);
  }
  return true;
}

function check(messages: readonly UIMessage[]): void {
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant"],
  );
  const reply = messages[1] as UIMessage;
  assert.ok(isCoherent(textOf(reply)), textOf(reply));
  assert.equal(textOf(reply).trim().split(" ").length, 13);
  const charged = reply.parts.filter(({ type }) => type === "tool-charge");
  assert.deepEqual(
    charged.map((part) => (part as { output?: unknown }).output),
    ["charged"],
  );
}

/** The parts, without what differs between a streamed message and a stored one. */
const outline = (messages: readonly UIMessage[]): unknown =>
  messages.map(({ role, parts }) => ({
    role,
    parts: parts.map((part) => [
      part.type,
      "text" in part ? part.text : undefined,
      "output" in part ? part.output : undefined,
    ]),
  }));
