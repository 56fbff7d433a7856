// Tools of the Claude Agent SDK that are recorded by its hooks: what is not executed again, and what the policies do.
import { type HookCallbackMatcher, type HookEvent, query } from "@anthropic-ai/claude-agent-sdk";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  durableTools,
  type DurableTools,
  type DurableToolsOptions,
  SavepointSessionStore,
  type ToolHookOutput,
  type ToolHooks,
  type TranscriptEntry,
} from "../../src/integrations/claude/index.js";
import type { Savepoint } from "../../src/index.js";
import { DURABLE_STORES, useStore } from "../langgraph/durable-stores.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const scripted = fileURLToPath(new URL("../../examples/claude/scripted-claude.mjs", import.meta.url));

/** Claude Code, reduced to the hooks that it calls. */
class Caller {
  #calls = 0;
  readonly #tools: DurableTools;

  constructor(tools: DurableTools) {
    this.#tools = tools;
  }

  async hook(event: keyof ToolHooks, input: object): Promise<ToolHookOutput> {
    const [matcher] = this.#tools.hooks[event];
    return (await matcher?.hooks[0]?.({ hook_event_name: event, ...input })) ?? {};
  }

  /** Starts a call; `undefined` if it may be executed, otherwise what the model gets instead. */
  async start(name: string, input: unknown, id = `toolu_${++this.#calls}`): Promise<string | undefined> {
    const { hookSpecificOutput } = await this.hook("PreToolUse", {
      tool_name: name,
      tool_input: input,
      tool_use_id: id,
    });
    return hookSpecificOutput?.permissionDecisionReason;
  }

  /** Ends the last call that was started. */
  async end(response: unknown): Promise<void> {
    await this.hook("PostToolUse", { tool_use_id: `toolu_${this.#calls}`, tool_response: response });
  }

  async fail(error: string, isInterrupt = false): Promise<void> {
    await this.hook("PostToolUseFailure", { tool_use_id: `toolu_${this.#calls}`, error, is_interrupt: isInterrupt });
  }
}

const result = (id: string, content: unknown, isError = false): TranscriptEntry => ({
  type: "user",
  message: { role: "user", content: [{ type: "tool_result", tool_use_id: id, content, is_error: isError }] },
});

describe.each(DURABLE_STORES)("durable tools on $name", (kind) => {
  const lab = useStore(kind);
  const open = async (sp: Savepoint, options: Partial<DurableToolsOptions> = {}): Promise<[DurableTools, Caller]> => {
    const tools = await durableTools(sp, { session: "s", turn: "one", ...options });
    return [tools, new Caller(tools)];
  };

  it("answers a call that was recorded with its result, and executes it again only if the model knows the result", async () => {
    const sp = await lab.open();
    const [first, before] = await open(sp);
    expect(await before.start("charge", { amount: 5, to: "ada" })).toBeUndefined();
    await before.end({ charged: 5 });
    await first.release();

    const [second, after] = await open(sp);
    expect(await after.start("charge", { to: "ada", amount: 5 })).toMatch(/Its result: \{"charged":5\}/);
    expect(await after.start("charge", { to: "ada", amount: 6 })).toBeUndefined();
    await after.end({ charged: 6 });
    await second.release();

    // The first call has the id toolu_1. Claude Code has written that the result of the other one is missing.
    const missing = result(
      "toolu_2",
      "[Tool call interrupted: the session ended before this call's result was recorded]",
      true,
    );
    const [third, last] = await open(sp, { transcript: [result("toolu_1", "charged"), missing] });
    expect(await last.start("charge", { amount: 5, to: "ada" })).toBeUndefined();
    await last.end({ charged: 5 });
    expect(await last.start("charge", { amount: 6, to: "ada" })).toMatch(/charged":6/);
    expect(await third.complete("done")).toMatchObject({ status: "completed", output: "done" });
    expect((await durableTools(sp, { session: "s", turn: "one" })).finished).toMatchObject({ output: "done" });
    expect((await durableTools(sp, { session: "s", turn: "two" })).finished).toBeUndefined();
  });

  it("stops the query at an interrupted call, and continues with the answer of a person", async () => {
    const sp = await lab.open();
    const [first, before] = await open(sp);
    await before.start("charge", { amount: 5 });
    await first.release();

    const [, after] = await open(sp);
    const stopped = await after.hook("PreToolUse", {
      tool_name: "charge",
      tool_input: { amount: 5 },
      tool_use_id: "x",
    });
    expect(stopped).toMatchObject({
      continue: false,
      stopReason: expect.stringMatching(/"charge" was interrupted/) as unknown,
    });
    const info = await sp.sessions.load("s");
    expect(info).toMatchObject({
      status: "waiting",
      questions: [{ call: { name: "charge", arguments: { amount: 5 } } }],
    });
    await sp.answer("s", { happened: true, result: "charged, says the bank" });

    const [third, last] = await open(sp);
    expect(await last.start("charge", { amount: 5 })).toMatch(/charged, says the bank/);
    await third.complete();
  });

  it.each([
    ["retry", undefined],
    ["fail", /whether it happened is unknown. Check whether it happened/],
    ["verify", /Its result: "?seen at the bank: 5/],
  ] as const)("treats an interrupted call by the policy %s", async (onUnknown, answer) => {
    const sp = await lab.open();
    const policies = {
      charge: {
        onUnknown,
        verify: (input: unknown) => ({
          happened: true as const,
          result: `seen at the bank: ${(input as { amount: number }).amount}`,
        }),
      },
    };
    const [first, before] = await open(sp, { policies });
    expect(await before.start("charge", { amount: 5 })).toBeUndefined();
    await first.release();
    const [second, after] = await open(sp, { policies });
    const given = await after.start("charge", { amount: 5 });
    if (answer) expect(given).toMatch(answer);
    else expect(given).toBeUndefined();
    if (!answer) await after.end("charged");
    expect(await second.complete()).toMatchObject({ status: "completed" });
  });

  it("records errors, but not denied calls or tools that only read", async () => {
    const sp = await lab.open();
    const [first, before] = await open(sp);
    await before.start("charge", { amount: 1 });
    await before.fail("no such account");
    await before.start("charge", { amount: 2 });
    await before.hook("PostToolBatch", { tool_calls: [{ tool_use_id: "toolu_1" }, { tool_use_id: "toolu_2" }] });
    expect(await before.start("Read", { file_path: "a" })).toBeUndefined();
    await first.release();
    expect((await sp.journal("s").all()).map(({ name }) => name)).toEqual(["charge", "charge"]);

    const [second, after] = await open(sp);
    expect(await after.start("charge", { amount: 1 })).toMatch(/It failed: no such account/);
    expect(await after.start("charge", { amount: 2 })).toBeUndefined();
    await after.fail("a person has stopped it", true);
    expect((await sp.sessions.load("s"))?.status).not.toBe("completed");
    await second.release();
    const [, last] = await open(sp);
    expect(await last.start("charge", { amount: 2 })).toMatch(/was interrupted/);
  });

  it("records calls that run at the same time", async () => {
    const sp = await lab.open();
    const [first, caller] = await open(sp);
    const ids = ["a", "b", "c"];
    const start = async (id: string): Promise<unknown> => caller.start("charge", { amount: 1 }, id);
    expect(await Promise.all(ids.map(start))).toEqual([undefined, undefined, undefined]);
    await Promise.all(ids.map((id) => caller.hook("PostToolUse", { tool_use_id: id, tool_response: `charged ${id}` })));
    await first.release();
    const [, again] = await open(sp);
    const replayed = await Promise.all(ids.map(async () => again.start("charge", { amount: 1 })));
    expect(new Set(replayed.map((text) => text?.at(-1)))).toEqual(new Set(ids));
  });

  it("works with the SDK's own query(), which mirrors the transcript and calls the hooks", async () => {
    const folder = await makeFolder();
    onTestFinished(() => removeFolder(folder));
    const sp = await lab.open();
    const sessionStore = new SavepointSessionStore(sp);
    const sessionId = "7c1f0a52-0000-4000-8000-00000000000a";
    const key = { projectKey: folder.replaceAll(/[^a-zA-Z0-9]/g, "-"), sessionId };
    const replies: string[] = [];
    for (const [index, prompt] of ["Say one.", "Say two."].entries()) {
      const tools = await durableTools(sp, { session: "s", turn: prompt, transcript: await sessionStore.load(key) });
      const hooks: Partial<Record<HookEvent, HookCallbackMatcher[]>> = tools.hooks;
      const options = {
        cwd: folder,
        sessionStore,
        hooks,
        ...(index === 0 ? { sessionId } : { resume: sessionId }),
        pathToClaudeCodeExecutable: scripted,
        executable: "node" as const,
        env: {
          ...process.env,
          CLAUDE_CONFIG_DIR: `${folder}/config`,
          SCRIPT: JSON.stringify(["echo one", "echo two"].slice(0, index + 1)),
        },
      };
      for await (const message of query({ prompt, options }))
        if (message.type === "result" && message.subtype === "success") replies.push(message.result);
      await tools.complete(replies.at(-1));
    }
    expect(replies).toEqual(["one", "two"]);
    const lines = (await sessionStore.load(key)) ?? [];
    // For each prompt: itself, a call, its result, and the reply.
    expect(lines).toHaveLength(8);
    expect(new Set(lines.map(({ uuid }) => uuid)).size).toBe(8);
    const calls = await sp.session("s").journal({ all: true }).all();
    expect(calls.map((call) => call.kind === "tool" && call.value)).toMatchObject([
      { output: "one" },
      { output: "two" },
    ]);
  });
});
