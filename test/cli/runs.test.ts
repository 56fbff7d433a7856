// run, recover, answer, cancel and watch on the command line.
import { setTimeout as sleep } from "node:timers/promises";
import { copyFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { PassThrough } from "node:stream";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { brokenPipe, BUILT_LIBRARY, CTRL_C, DOWN, ENTER, errorOf, LIBRARY, linesOf, startMain } from "./command.js";
import { type Fields, Place, usePlace } from "./place.js";
import { NEWEST } from "../mcp/clients.js";

const tool = usePlace();
let agents: readonly string[] = [];

beforeEach(() => {
  agents = agentsFor(tool(), LIBRARY);
});

const agentsFor = (place: Place, library: string): string[] => [
  "--agents",
  place.file(library === LIBRARY ? "agents.mjs" : "built-agents.mjs", agentsIn(place.folder, library)),
];

/** A module with agents. They append what they do to the file "done" in the folder. */
const agentsIn = (folder: string, library: string): string => `
import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent, message } from "${library}";

const folder = ${JSON.stringify(folder)};
const done = (what) => appendFileSync(folder + "/done", what + "\\n");

const worker = defineAgent({
  name: "worker",
  initial: (input) => ({ input, n: 0 }),
  async step(run) {
    const reply = await run.llm(() => (done("llm " + run.state.n), { ...message.assistant("reply " + run.state.n), usage: { tokens: 10, cost: 1 } }));
    run.state.n += 1;
    if (run.state.n === run.state.input) return run.complete({ said: reply.content, at: new Date(0), big: 7n });
  },
});

const payer = defineAgent({
  name: "payer",
  initial: (input) => ({ input }),
  async step(run) {
    const call = { id: "call-1", name: "pay", arguments: { euros: run.state.input } };
    const result = await run.tool(call, async () => {
      done("pay");
      if (process.env.CRASH) process.kill(process.pid, "SIGKILL");
      if (run.state.input === "slow") await sleep(60_000, undefined, { signal: run.signal });
      return "receipt 1";
    });
    run.state.result = result;
    return run.complete(result);
  },
});

const asker = defineAgent({
  name: "asker",
  initial: (input) => ({ input }),
  async step(run) {
    run.state.answer = await run.ask({ text: "Which \\u001b[31mcity?", data: { of: ["Lisbon", "Porto"] } });
    return run.complete(run.state.answer);
  },
});

const slow = defineAgent({
  name: "slow",
  initial: () => ({ n: 0 }),
  async step(run) {
    await run.effect("work " + run.state.n, async () => {
      done("work " + run.state.n);
      await sleep(run.state.n === 0 ? 10 : 100);
    });
    run.state.n += 1;
    if (run.state.n === 3000 || existsSync(folder + "/enough")) return run.complete(run.state.n);
  },
});

const unlucky = defineAgent({ name: "unlucky", initial: () => ({}), step: (run) => run.fail("no luck") });
const odd = defineAgent({
  name: "odd",
  initial: () => ({}),
  async step(run) {
    return run.complete(await run.ask({ text: "How many?", data: { most: 5n } }));
  },
});

export default worker;
export const others = [payer, asker, slow];
export { unlucky, odd };
export const version = 1, nothing = null;
`;

const done = (): string[] =>
  existsSync(tool().path("done")) ? readFileSync(tool().path("done"), "utf8").trim().split("\n") : [];
const begin = (agent: string, session: string, input: unknown, ...more: string[]): string[] => [
  "run",
  agent,
  ...agents,
  "--session",
  session,
  "--input",
  JSON.stringify(input),
  ...more,
];
/** The same for a process, whose agents import another copy of the library than the program. */
const beginInProcess = (agent: string, session: string, input: unknown, place = tool()): string[] => [
  "run",
  agent,
  ...agentsFor(place, BUILT_LIBRARY),
  "--session",
  session,
  "--input",
  JSON.stringify(input),
];

/** A place with session "p", whose process died during the payment. */
let dead: Promise<Place> | undefined;
afterAll(async () => (await dead)?.end());

/** Leaves the store as after a crash during the payment. */
async function dieWhilePaying(): Promise<void> {
  dead ??= (async () => {
    const place = new Place();
    const begun = place.spawnOn(beginInProcess("payer", "p", 5, place), { stdin: "", env: { CRASH: "1" } });
    expect((await begun.ended).signal).toBe("SIGKILL");
    return place;
  })();
  const { folder } = await dead;
  for (const name of readdirSync(folder).filter((each) => /^(s\.db|done)/.test(each))) {
    copyFileSync(`${folder}/${name}`, tool().path(name));
  }
}

describe("run", () => {
  it("run starts a session and completes it, and a second run returns the recorded result", async () => {
    const first = await tool().json(begin("worker", "w", 2));
    const output = { said: "reply 1", at: { $date: "1970-01-01T00:00:00.000Z" }, big: { $bigint: "7" } };
    expect(first).toEqual({
      session: "w",
      branch: "main",
      status: "completed",
      steps: 2,
      usage: { tokens: 20, cost: 2 },
      output,
    });
    expect(await tool().json(["run", "worker", ...agents, "--session", "w"])).toEqual(first);
    expect(done()).toEqual(["llm 0", "llm 1"]);
    const text = await tool().on(["run", "worker", ...agents, "--session", "w"]);
    expect(text.stdout).toContain("completed");
    expect(text.stdout).toContain("reply 1");
    // Usage is printed if there is any.
    expect((await tool().on(["show", "w"])).stdout).toMatch(/^used +20 tokens, cost 2$/m);
    expect((await tool().on(["show", "w#0"])).stdout).not.toMatch(/^used/m);
  });

  it("run halts at its limits with exit code 1 and resumes with higher limits", async () => {
    const halted = await tool().json(begin("worker", "w", 5, "--max-steps", "2"), 1);
    expect(halted).toMatchObject({ status: "halted", steps: 2 });
    expect(
      await tool().json(["run", "worker", ...agents, "--session", "w", "--resume", "--budget", "3"], 1),
    ).toMatchObject({
      status: "halted",
      usage: { cost: 3 },
    });
    expect(await tool().json(["run", "worker", ...agents, "--session", "w", "--resume"])).toMatchObject({ steps: 5 });
    expect(done()).toHaveLength(5);
  });

  it("run prints the error of an agent with its stack and the command that resumes it, and show prints it too", async () => {
    const module = (broken: boolean): string =>
      tool().file(
        "buggy.mjs",
        `import { defineAgent } from "${LIBRARY}";
export const buggy = defineAgent({ name: "buggy", initial: () => ({}), step: (run) => ${broken ? "missing()" : 'run.complete("fixed")'} });`,
      );
    const path = module(true);
    const ended = await tool().on(["run", "--agents", path, "--session", "b 1", "--input", "1"]);
    expect(ended.code).toBe(1);
    expect(ended.stdout).toMatch(/failed {2}ReferenceError: missing is not defined/);
    expect(ended.stdout).toMatch(/at .*buggy\.mjs/);
    expect(ended.stdout).toContain(`savepoint run buggy --agents ${path} --session 'b 1'`);
    expect(ended.stdout).not.toContain("--resume");
    expect(ended.stderr).not.toContain("at ");
    expect((await tool().on(["sessions"])).stdout).toContain("ReferenceError: missing is not defined");
    expect((await tool().on(["show", "b 1"])).stdout).toMatch(/^error +ReferenceError: missing[^]*at .*buggy\.mjs/m);
    expect(await tool().json(["show", "b 1"])).toMatchObject({ error: { name: "ReferenceError" } });
    expect(await tool().json(["sessions"])).toMatchObject([{ id: "b 1", error: { name: "ReferenceError" } }]);
    const halted = await tool().on(begin("worker", "w", 5, "--max-steps", "2"));
    expect(halted.stdout).toMatch(/To resume it: savepoint run worker .*--session w --resume/);
  });

  it("run exits with 1 if the agent fails", async () => {
    expect(await tool().json(begin("unlucky", "u", 1), 1)).toMatchObject({ status: "failed", reason: "no luck" });
  });

  it("run rejects missing or unusable agents, sessions and inputs", async () => {
    await tool().leave(async () => {});
    await tool().fail(["run", "worker", ...agents], 2);
    await tool().fail(["run", "worker", "--session", "w"], 2);
    await tool().fail(["run", "worker", "--agents", "nowhere.mjs", "--session", "w"], 2);
    expect((await tool().fail(["run", "wroker", ...agents, "--session", "w"], 2)).message).toContain("worker");
    expect((await tool().fail(["run", ...agents, "--session", "w"], 2)).message).toContain("payer");
    await tool().fail(["run", "worker", ...agents, "--session", "w"], 4);
    await tool().fail([...begin("worker", "w", 1).slice(0, -1), "{"], 2);
    await tool().fail(begin("worker", "w", 1, "--budget", "much"), 2);
    await tool().fail(begin("worker", "w", 1, "--max-steps", "0"), 2);
    await tool().fail(begin("worker", "w", 1, "--max-time", "soon"), 2);
    const broken = tool().file("broken.mjs", "throw new Error('\\u001b[31mbroken');");
    const text = await tool().on(["run", "worker", "--agents", broken, "--session", "w"]);
    expect(text.code).toBe(2);
    expect(text.stderr).not.toContain("\u001b");
    tool().file("package.json", '{ "type": "commonjs" }');
    const wrong = tool().file("wrong.js", "import { defineAgent } from 'savepoint'; export {};");
    const { screen } = await tool().spawnTerminalOn(["run", "worker", "--agents", wrong, "--session", "w"]).ended;
    expect(screen.replaceAll(/\s+/g, "")).toContain('wrong.mjs,orset"type":"module"');
    const none = tool().file("none.mjs", "export const agent = { name: 'worker' };");
    await tool().fail(["run", "worker", "--agents", none, "--session", "w"], 2);
    expect(done()).toEqual([]);
  });

  it("run ignores exports that only resemble an agent", async () => {
    const odd = tool().file(
      "odd.mjs",
      `export { default } from "./agents.mjs"; export const x = { name: "x", definition: null };`,
    );
    expect(await tool().json(["run", "worker", "--agents", odd, "--session", "w", "--input", "1"])).toMatchObject({
      status: "completed",
    });
  });

  it("run accepts an input with the same --key once", async () => {
    await tool().json(begin("worker", "w", 1, "--key", "k"));
    expect(await tool().json(begin("worker", "w", 1, "--key", "k"))).toMatchObject({ status: "completed" });
    expect(done()).toEqual(["llm 0"]);
  });

  it("run resumes after Ctrl-C, which reports that nothing is lost", async () => {
    const terminal = tool().spawnTerminalOn(beginInProcess("slow", "s", 1));
    await terminal.seen("step 3 completed");
    terminal.type(CTRL_C);
    const { code, screen } = await terminal.ended;
    expect(code).toBe(130);
    expect(screen).toContain("the store is consistent");
    tool().file("enough", "");
    const [result] = await tool().json<Fields[]>(["recover", ...agents]);
    expect(result).toMatchObject({ status: "completed" });
    // Effects in progress may be executed again; recorded ones are not.
    expect(done().filter((line) => line === "work 1")).toHaveLength(1);
  });
});

describe("kill -9", () => {
  it("recover resumes a killed run and repeats no recorded effect", async () => {
    const started = tool().spawnOn(beginInProcess("slow", "s", 1), { stdin: "" });
    await started.seen("step 4 completed");
    started.child.kill("SIGKILL");
    expect(await started.ended).toMatchObject({ signal: "SIGKILL" });

    const findings = await tool().json<Fields[]>(["doctor"]);
    expect(findings.find(({ check }) => check === "shutdown")).toMatchObject({ state: "note" });
    expect(findings.find(({ check }) => check === "interrupted")).toMatchObject({ state: "note" });
    expect(await tool().json(["sessions"])).toMatchObject([{ id: "s", status: "interrupted" }]);

    tool().file("enough", "");
    const [result] = await tool().json<Fields[]>(["recover", ...agents]);
    expect(result).toMatchObject({ session: "s", status: "completed" });
    for (let n = 0; n < 4; n++) expect(done().filter((line) => line === `work ${n}`)).toHaveLength(1);
    expect(await tool().json(["recover", ...agents])).toEqual([]);
    expect(await tool().json(["verify", "--deep"])).toMatchObject({ ok: true });
  });

  it("the CLI, the library and the MCP server report the same status of a killed run, before and after a rewind", async () => {
    const started = tool().spawnOn(beginInProcess("slow", "s", 1), { stdin: "" });
    await started.seen("step 4 completed");
    started.child.kill("SIGKILL");
    await started.ended;
    const client = await NEWEST.connect(tool().url);
    /** What each interface reports about the session. */
    const faces = async (): Promise<unknown> => {
      const [findings, [listed], shown, { status: mcp }] = await Promise.all([
        tool().json<{ check: string; detail: string }[]>(["doctor"]),
        tool().json<{ status: string }[]>(["sessions"]),
        tool().on(["show", "s", "--info"]),
        client.call("session_resume", { session: "s" }),
      ]);
      return {
        doctor: findings.filter(({ detail }) => detail === "s").map(({ check }) => check),
        sessions: listed?.status,
        show: /^now +(\w+)/m.exec(shown.stdout)?.[1],
        mcp,
      };
    };
    const all = (status: string): unknown => ({ doctor: [status], sessions: status, show: status, mcp: status });
    expect(await faces()).toEqual(all("interrupted"));
    await tool().on(["rewind", "s#0"]);
    expect(await faces()).toEqual(all("halted"));
    expect(await tool().json(["recover", ...agents])).toEqual([]);
    await client.close();
  });

  it("recover asks about an interrupted tool and resumes with the answer that it happened", async () => {
    await dieWhilePaying();
    expect(await tool().json(["journal", "p"])).toMatchObject([{ name: "pay", outcome: "unknown" }]);
    expect(await tool().json(["recover", ...agents])).toMatchObject([{ status: "waiting" }]);
    await tool().fail(["answer", "p", "--text", "yes"], 2);
    await tool().fail(["answer", "p", "--result", "1"], 2);
    await tool().fail(["answer", "p", "--happened", "--text", "yes"], 2);
    await tool().fail(["answer", "p", "--happened", "--question", "nothing"], 1);
    const said = await tool().json(["answer", "p", "--happened", "--result", '"receipt 7"']);
    expect(said).toEqual({
      session: "p",
      question: expect.any(String),
      value: { happened: true, result: "receipt 7" },
    });
    expect(await tool().jsonl(["recover", ...agents])).toMatchObject([{ output: "receipt 7" }]);
    expect(done()).toEqual(["pay"]);
  });

  it("an interrupted tool is executed again if the answer is that it did not happen", async () => {
    await dieWhilePaying();
    await tool().json(["recover", ...agents]);
    await tool().json(["answer", "p", "--no-happened"]);
    expect(await tool().json(["recover", ...agents])).toMatchObject([{ output: "receipt 1" }]);
    expect(done()).toEqual(["pay", "pay"]);
  });

  it("an interrupted tool fails with the reason of answer --failed, and is not executed again", async () => {
    await dieWhilePaying();
    await tool().json(["recover", ...agents]);
    await tool().fail(["answer", "p", "--failed", "declined", "--happened"], 2);
    await tool().fail(["answer", "p", "--failed", "declined", "--result", "1"], 2);
    await tool().fail(["answer", "p", "--tool", "call-1", "--result", "1", "--failed", "declined"], 2);
    expect(await tool().json(["answer", "p", "--failed", "declined"])).toMatchObject({ value: { failed: "declined" } });
    expect(await tool().json(["recover", ...agents], 1)).toMatchObject([
      { status: "failed", reason: "SavepointError: declined" },
    ]);
    expect(done()).toEqual(["pay"]);
  });

  it("answer --failed is rejected for a question that is not about a tool", async () => {
    await tool().json(begin("asker", "a", 1));
    expect((await tool().fail(["answer", "a", "--failed", "no"], 2)).message).toContain("not about a tool");
  });

  it("requeue schedules an interrupted and a failed run once, and no other", async () => {
    await dieWhilePaying();
    expect(await tool().json(["requeue", "p"])).toEqual({ session: "p", requeued: true });
    expect(await tool().json(["requeue", "p"])).toEqual({ session: "p", requeued: false });
    expect(await tool().text(["requeue", "p"])).toContain("Nothing was scheduled");
    expect(await tool().json(["queue"])).toMatchObject([{ sessionId: "p" }]);
    await tool().json(begin("unlucky", "u", 1), 1);
    const { stdout, stderr } = await tool().on(["requeue", "u"]);
    expect(stdout).toContain("the next worker resumes it");
    expect(stderr).toContain("start a worker for agent unlucky");
    await tool().json(begin("worker", "w", 1));
    expect(await tool().json(["requeue", "w"])).toEqual({ session: "w", requeued: false });
    await tool().fail(["requeue", "w", "--branch", "nothing"], 4);
    await tool().fail(["requeue", "nothing"], 4);
  });

  it("a fork can replace the results of a tool", async () => {
    await tool().json(begin("payer", "p", 5));
    const results = tool().file("results.json", JSON.stringify({ "call-1": "refused" }));
    const all = await tool().leave((sp) => sp.session("p").history().all());
    const last = all[0];
    const made = await tool().json(["fork", last?.id ?? "", "what-if", "--results", results]);
    expect(made).toMatchObject({ branch: "what-if" });
    const ran = await tool().json(["run", "payer", ...agents, "--session", "p", "--branch", "what-if"]);
    expect(ran).toMatchObject({ output: "refused" });
    expect(done()).toEqual(["pay"]);
    await tool().fail(["fork", last?.id ?? "", "x", "--results", "-"], 2, { stdin: '{"call-9":1}' });
  });
});

describe("answer", () => {
  it("answer shows the question and accepts what is typed", async () => {
    await tool().json(begin("asker", "a", 1));
    const terminal = tool().terminalOn(["answer", "a"]);
    await terminal.seen("city?");
    expect(terminal.screen()).toContain('"Lisbon"');
    // A question cannot change the colours of the terminal.
    expect(terminal.screen()).toContain("\\u001b[31mcity?");
    terminal.type(`Porto${ENTER}`);
    const { code, screen } = await terminal.ended;
    expect(code, screen).toBe(0);
    expect(await tool().json(["recover", ...agents])).toMatchObject([{ output: "Porto" }]);
  });

  it("answer asks whether an interrupted tool happened and what it returned", async () => {
    await dieWhilePaying();
    await tool().json(["recover", ...agents]);
    const terminal = tool().spawnTerminalOn(["answer", "p"]);
    await terminal.seen("It happened");
    expect(terminal.screen()).toContain('pay({"euros":5})');
    // Enter alone must neither repeat the tool nor claim that it happened.
    expect(terminal.screen()).toMatch(/●[^I]*I do not know/);
    terminal.type(DOWN);
    await terminal.seen(/●[^I]*It happened/);
    terminal.type(ENTER);
    await terminal.seen("What did it return?");
    terminal.type(`{"receipt":9}${ENTER}`);
    const { code, screen } = await terminal.ended;
    expect(code, screen).toBe(0);
    expect(await tool().json(["recover", ...agents])).toMatchObject([{ output: { receipt: 9 } }]);
    expect(done()).toEqual(["pay"]);
  });

  it("Ctrl-C exits with 130 and leaves the question open", async () => {
    await tool().json(begin("asker", "a", 1));
    const terminal = tool().terminalOn(["answer", "a"]);
    await terminal.seen("city?");
    terminal.type(CTRL_C);
    expect((await terminal.ended).code).toBe(130);
    expect(await tool().json(["sessions"])).toMatchObject([{ status: "waiting" }]);
  });

  it("answer asks nothing without a terminal and rejects an answer to no question", async () => {
    await tool().json(begin("asker", "a", 1));
    expect((await tool().fail(["answer", "a"], 2)).message).toContain("--text");
    await tool().fail(["answer", "nobody", "--text", "x"], 4);
    await tool().fail(["answer", "a", "--value", "{"], 2);
    await tool().json(["answer", "a", "--value", '{"city":"Faro"}']);
    await tool().fail(["answer", "a", "--text", "again"], 1);
    expect(await tool().json(["recover", ...agents])).toMatchObject([{ output: { city: "Faro" } }]);
    await tool().fail(["answer", "a"], 2);
  });

  it("--happened is rejected if no tool was interrupted", async () => {
    await tool().json(begin("asker", "a", 1));
    await tool().fail(["answer", "a", "--happened"], 2);
  });

  it("answer finds the question of another branch", async () => {
    await tool().json(begin("asker", "a", 1));
    await tool().json(["fork", "a#0", "side"]);
    await tool().json(["run", "asker", ...agents, "--session", "a", "--branch", "side", "--input", "1"]);
    await tool().json(["answer", "a", "--text", "Porto"]);
    const { message } = await tool().fail(["answer", "a", "--branch", "side"], 2);
    expect(message).toContain("asks:");
  });
});

describe("cancel", () => {
  it("cancel stops a run of another process, which is then halted with the reason", async () => {
    const started = tool().spawnOn(beginInProcess("slow", "s", 1), { stdin: "" });
    await started.seen("step 2 completed");
    expect(await tool().json(["cancel", "s", "--reason", "wrong order"])).toEqual({ session: "s", cancelled: true });
    const ended = await started.ended;
    expect(ended.code, ended.stderr).toBe(1);
    expect(ended.stdout).toMatch(/halted.*wrong order/);
    expect(await tool().json(["cancel", "s"])).toEqual({ session: "s", cancelled: false });
    await tool().fail(["cancel", "nobody"], 4);
  });

  it("run exits with 11 if another process runs the session", async () => {
    const started = tool().spawnOn(beginInProcess("slow", "s", 1), { stdin: "" });
    await started.seen("step 2 completed");
    expect((await tool().fail(["run", "slow", ...agents, "--session", "s"], 11)).code).toBe("ALREADY_RUNNING");
    await tool().fail(["rewind", "s#0"], 11);
    tool().file("enough", "");
    expect(await started.ended).toMatchObject({ code: 0 });
  });
});

describe("watch", () => {
  it("watch follows a run of another process until it ends", async () => {
    const started = tool().spawnOn(beginInProcess("slow", "s", 1), { stdin: "" });
    await started.seen("step 2 completed");
    const watching = tool().startOn(["watch", "s", "--jsonl"]);
    await watching.seen('"running"');
    tool().file("enough", "");
    expect(await started.ended).toMatchObject({ code: 0 });
    const { code, stdout, stderr } = await watching.ended;
    expect(code, stderr).toBe(0);
    const events = linesOf(stdout).map((line) => JSON.parse(line) as Fields);
    for (const event of events) expect(event["session"]).toBe("s");
    expect(events.some(({ type }) => type === "checkpoint")).toBe(true);
    expect(events.at(-1)).toMatchObject({ type: "status", status: "completed" });
  });

  it("watch without a session reports changes of all sessions until Ctrl-C", async () => {
    await tool().leave((sp) => sp.session("old").save({ n: 0 }));
    const watching = tool().startOn(["watch"]);
    const seen = watching.seen(/^\d\d:\d\d:\d\d +new .*#\d/m).then(() => true);
    // The first poll cannot be observed from outside.
    while (!(await Promise.race([seen, sleep(100, false)]))) {
      await tool().leave((sp) => sp.session("new").save({ n: 1 }));
    }
    watching.interrupt();
    const { code, stdout } = await watching.ended;
    expect(code).toBe(130);
    expect(stdout).not.toContain("old");
  });

  it("watch ends quietly if the reader closes the pipe", async () => {
    await tool().leave((sp) => sp.session("s").save({ n: 0 }));
    const stderr = new PassThrough();
    const streams = { stdin: new PassThrough(), stdout: brokenPipe(), stderr };
    const watching = startMain(["--store", tool().url, "watch", "--jsonl"], streams);
    // The first poll cannot be observed from outside.
    let code: number | undefined;
    for (let n = 1; code === undefined; n++) {
      await tool().leave((sp) => sp.session("s").save({ n }));
      code = await Promise.race([watching.ended, sleep(100, undefined)]);
    }
    expect({ code, stderr: stderr.read() as unknown }).toEqual({ code: 0, stderr: null });
  });

  it("watch prints questions with values that JSON cannot represent", async () => {
    await tool().json(begin("odd", "o", 1));
    const watching = tool().startOn(["watch", "o"]);
    await watching.seen("waiting");
    watching.interrupt();
    expect((await watching.ended).code).toBe(130);
  });

  it("watch reports a session that does not exist", async () => {
    await tool().leave((sp) => sp.session("s").save({ n: 0 }));
    errorOf(await tool().on(["watch", "t", "--json"]), 4);
  });
});
