/** `savepoint mcp`: its options, and the hooks of a coding agent. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { type Savepoint, toJson } from "../../src/index.js";
import { type Ended, run, startMain } from "../cli/command.js";
import { usePlace } from "../cli/place.js";

const place = usePlace();

type Fields = Record<string, unknown>;

/** Runs `savepoint mcp` in a folder, in this process. */
function mcp(args: readonly string[], stdin: string, cwd = place().folder): Promise<Ended> {
  return run(["mcp", "--store", place().url, ...args], { cwd, stdin });
}

/** The answers of a server to requests. */
async function serve(args: readonly string[], ...requests: readonly Fields[]): Promise<Fields[]> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const all = ["mcp", "--store", place().url, ...args];
  const { ended } = startMain(all, { cwd: place().folder, stdin, stdout, stderr });
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  const clientInfo = { name: "test", version: "1" };
  const initialize = { method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } };
  const answers: Fields[] = [];
  for (const [id, request] of [initialize, ...requests].entries()) {
    stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...request })}\n`);
    const answer = JSON.parse((await lines.next()).value as string) as { id: number; result: Fields };
    expect(answer.id).toBe(id);
    answers.push(answer.result);
  }
  stdin.end();
  expect(await ended).toBe(0);
  return answers;
}

const hook = (event: string, fields: Fields = {}): string =>
  JSON.stringify({ hook_event_name: event, session_id: "7f", cwd: place().folder, ...fields });

/** A transcript as Claude Code writes it, with a last line that is not complete. */
async function writeTranscript(texts: readonly string[]): Promise<string> {
  const path = place().path("transcript.jsonl");
  const entries: Fields[] = [
    { type: "summary", summary: "An earlier conversation" },
    { type: "user", isMeta: true, uuid: "m", message: { role: "user", content: "about the client itself" } },
    ...texts.map((text, n) => ({
      type: n % 2 === 0 ? "user" : "assistant",
      uuid: `u${n}`,
      timestamp: "2026-01-31T12:00:00.000Z",
      message: { role: n % 2 === 0 ? "user" : "assistant", content: n % 2 === 0 ? text : [{ type: "text", text }] },
    })),
  ];
  await writeFile(path, `${entries.map((entry) => JSON.stringify(entry)).join("\n")}\n{"type":"user","mess`);
  return path;
}

it("--tools selects groups and names, and an unknown name is an error that lists the names", async () => {
  await place().leave((sp) => sp.session("s").save({ n: 1 }));
  const [, listed] = await serve(["--tools", "conversations, session_save"], { method: "tools/list" });
  const names = ["conversation_load", "conversation_list", "conversation_search"];
  expect(listed).toMatchObject({ tools: names.map((name) => ({ name })) });
  const { code, stderr, stdout } = await mcp(["--tools", "coding,sessoins"], "");
  expect(code).toBe(2);
  expect(stdout).toBe("");
  expect(stderr).toContain('"sessoins"');
  expect(stderr).toContain("coding, all, sessions");
  expect(stderr).toContain("session_resume, session_save");
});

it("--project names the project, and by default it is the working directory", async () => {
  const call = (name: string, args: Fields = {}): Fields => ({
    method: "tools/call",
    params: { name, arguments: args },
  });
  await serve(["--write"], call("session_save", { session: "here", state: 1 }));
  await serve(["--write", "--project", "shop"], call("session_save", { session: "there", state: 2 }));
  const resumed = async (...args: string[]): Promise<unknown> =>
    ((await serve(args, call("session_resume")))[1] as { structuredContent: Fields }).structuredContent;
  expect(await resumed()).toMatchObject({ session: "here" });
  expect(await resumed("--project", place().folder)).toMatchObject({ session: "here" });
  expect(await resumed("--project", "shop")).toMatchObject({ session: "there" });
  expect(await resumed("--project", "blog")).toMatchObject({ candidates: [{ session: "there" }, { session: "here" }] });
});

it("the hook at the start of a session prints the last session of the project, and changes nothing", async () => {
  // Without a store and without a session there is nothing to print.
  expect(await mcp(["--hook"], hook("SessionStart"))).toEqual({ code: 0, stdout: "", stderr: "" });
  const folder = place().folder;
  await place().leave(async (sp) => {
    await sp.session("other").save({ secret: "of another project" }, { metadata: { project: "elsewhere" } });
  });
  expect(await mcp(["--hook"], hook("SessionStart"))).toEqual({ code: 0, stdout: "", stderr: "" });
  const { id } = await place().leave((sp) =>
    sp
      .session("task")
      .save(
        { todo: ["write tests"], log: "x".repeat(50_000) },
        { metadata: { project: folder }, resumeHint: "Run the tests.", label: "halfway" },
      ),
  );
  const { code, stdout } = await mcp(["--hook"], hook("SessionStart", { source: "startup" }), "/");
  expect(code).toBe(0);
  for (const text of ['"task"', '"halfway"', "Run the tests.", "write tests", id, "session_resume"]) {
    expect(stdout).toContain(text);
  }
  expect(stdout).not.toContain("secret");
  expect(stdout.length).toBeLessThan(10_000);
});

it("the other hooks save the transcript as a conversation, and append only what is new", async () => {
  const transcript_path = await writeTranscript(["Fix the login", "The cookie has expired."]);
  const save = (event: string, args: string[] = ["--write"]): Promise<Ended> =>
    mcp([...args, "--hook"], hook(event, { transcript_path, trigger: "auto" }));
  // Before there is a store, too.
  expect(await save("PreCompact", [])).toMatchObject({ code: 1, stderr: expect.stringContaining("Pass --write.") });
  expect(await save("PreCompact")).toEqual({ code: 0, stdout: "", stderr: "" });
  await save("Stop");
  await writeTranscript(["Fix the login", "The cookie has expired.", "Add a test", "Done."]);
  await save("SessionEnd");
  await place().leave(async (sp: Savepoint) => {
    const conversation = await sp.conversations.load("claude-7f");
    expect(toJson(conversation?.messages)).toMatchObject([
      { id: "u0", role: "user", content: "Fix the login" },
      { id: "u1", role: "assistant", content: [{ type: "text", text: "The cookie has expired." }] },
      { id: "u2" },
      { id: "u3" },
    ]);
    expect(conversation).toMatchObject({ title: "Fix the login", metadata: { project: place().folder } });
    expect(await sp.conversations.search("cookie")).toMatchObject([{ conversationId: "claude-7f" }]);
    // The transcript is not the session that is resumed.
    expect(await sp.sessions.list().all()).toEqual([]);
  });
  expect(await mcp(["--write", "--agent", "me", "--hook"], hook("Stop", { transcript_path }))).toMatchObject({
    code: 1,
  });
});

it("a hook that fails says why, and never ends with the exit code that blocks the client", async () => {
  await place().leave((sp) => sp.session("s").save({ n: 1 }));
  await mkdir(place().path("folder"));
  const failures = [
    [["--write"], "not json", "not valid JSON"],
    [["--write"], "[]", "hook_event_name"],
    [["--write"], hook("Stop", { session_id: 7 }), "session_id"],
    [["--write"], hook("Stop"), "transcript_path"],
    [["--write"], hook("Stop", { transcript_path: join(place().folder, "missing") }), "cannot be read"],
    [[], hook("Stop", { transcript_path: "x" }), "--write"],
  ] as const;
  for (const [args, stdin, reason] of failures) {
    const { code, stdout, stderr } = await mcp([...args, "--hook"], stdin);
    expect(code, stdin).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain(reason);
  }
});
