// init, fork, rewind, restore, label, pin and delete on the command line.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { CTRL_C, ENTER, errorOf } from "./command.js";
import { type Fields, saveAgent, saveTrip, seqsOf, stateOf, usePlace } from "./place.js";

const tool = usePlace();

interface Info extends Fields {
  readonly id: string;
  readonly seq: number;
}

const log = (name: string): Promise<Info[]> => tool().json<Info[]>(["log", name, "--all"]);
const seqs = (session: string): Promise<number[]> => seqsOf(tool(), session);

describe("init", () => {
  it("init creates a store that subfolders find, with a .gitignore", async () => {
    const made = await tool().run(["init", "--json"]);
    expect(made.code, made.stderr).toBe(0);
    const { store, created } = JSON.parse(made.stdout) as Fields;
    expect({ store, created }).toEqual({ store: `sqlite:${tool().path(".savepoint", "store.db")}`, created: true });
    expect(readFileSync(tool().path(".savepoint", ".gitignore"), "utf8")).toBe("*\n");

    mkdirSync(tool().path("a", "b"), { recursive: true });
    const found = await tool().run(["sessions", "--json"], { cwd: tool().path("a", "b") });
    expect(found).toMatchObject({ code: 0, stdout: "[]\n" });

    const again = await tool().run(["init", "--jsonl"]);
    expect(JSON.parse(again.stdout)).toEqual({ store, created: false });
  });

  it("init creates the store named by --store and nothing else", async () => {
    const made = await tool().run(["init"], { env: { SAVEPOINT_URL: "file:./agents" } });
    expect(made.code, made.stderr).toBe(0);
    expect(existsSync(tool().path("agents"))).toBe(true);
    expect(existsSync(tool().path(".savepoint"))).toBe(false);
    expect(made.stderr).toContain("file:");
  });

  it("init ignores an empty SAVEPOINT_URL", async () => {
    const made = await tool().run(["init"], { env: { SAVEPOINT_URL: "" } });
    expect(made.code, made.stderr).toBe(0);
    expect(existsSync(tool().path(".savepoint", ".gitignore"))).toBe(true);
  });

  it("init reports that something else is in the way", async () => {
    tool().file(".savepoint", "a file");
    const refused = errorOf(await tool().run(["init", "--json"]), 1);
    expect(refused.code).toBe("IO_FAILED");
    tool().file("notes.db", "these are notes, and no database at all".repeat(100));
    errorOf(await tool().run(["init", "--json", "--store", "sqlite:./notes.db"]), 10);
    expect(readFileSync(tool().path("notes.db"), "utf8")).toContain("these are notes");
  });
});

describe("fork", () => {
  it("fork opens a branch at a checkpoint and leaves the head of main where it was", async () => {
    const ids = await tool().leave((sp) => saveTrip(sp));
    const made = await tool().json(["fork", "trip#2", "what-if"]);
    expect(made).toMatchObject({ session: "trip", branch: "what-if", from: ids[2] });
    expect(await stateOf(tool(), "trip", "what-if")).toMatchObject({ n: 2 });
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
    const { branch } = await tool().json(["fork", "trip#2"]);
    expect(branch).not.toBe("what-if");
    expect(typeof branch).toBe("string");
  });

  it("fork starts a branch with a state from a file or stdin", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const edited = tool().file("edited.json", JSON.stringify({ n: 20, messages: [] }));
    await tool().json(["fork", "trip#2", "a", "--state", edited, "--label", "edited"]);
    await tool().json(["fork", "trip#2", "b", "--state", "-"], 0, { stdin: '{"n":21,"messages":["x"]}' });
    expect(await stateOf(tool(), "trip", "a")).toEqual({ n: 20, messages: [] });
    expect((await tool().json(["show", "trip@a", "--info"]))["label"]).toBe("edited");
    expect(await stateOf(tool(), "trip", "b")).toEqual({ n: 21, messages: ["x"] });
  });

  it("fork rejects invalid JSON, a missing file and an existing branch", async () => {
    await tool().leave((sp) => saveTrip(sp));
    expect((await tool().fail(["fork", "trip#2", "x", "--state", "-"], 2, { stdin: "{" })).code).toBe("USAGE");
    expect((await tool().fail(["fork", "trip#2", "x", "--state", "nowhere.json"], 2)).code).toBe("USAGE");
    await tool().fail(["fork", "trip#2", "main"], 1);
    await tool().fail(["fork", "trip#77", "x"], 4);
    expect((await tool().fail(["fork", "trap#2", "x"], 4)).message).toContain('Did you mean "trip"?');
    expect(await seqs("trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it("fork rejects --label without --state", async () => {
    await tool().leave((sp) => saveTrip(sp));
    await tool().fail(["fork", "trip#2", "x", "--label", "lost"], 2);
  });

  it("fork rejects results that are not an object", async () => {
    await tool().leave((sp) => saveTrip(sp));
    await tool().fail(["fork", "trip#2", "x", "--results", "-"], 2, { stdin: "null" });
  });

  it("fork accepts a state in the form that show prints", async () => {
    await tool().leave((sp) => sp.session("dated").save({ at: new Date(0), big: 1n }));
    const shown = await tool().json(["show", "dated"]);
    await tool().json(["fork", "dated#0", "b", "--state", "-"], 0, { stdin: JSON.stringify(shown["state"]) });
    const state = await tool().leave(async (sp) => (await sp.session("dated", { branch: "b" }).latest())?.state);
    expect(state).toEqual({ at: new Date(0), big: 1n });
  });
});

/** A completed session "paid" with a tool call in each of its two steps. */
const pay = (sp: Savepoint): Promise<unknown> =>
  sp.run(
    defineAgent({
      name: "payer",
      strategy: "everyStep",
      initial: () => ({ n: 0 }),
      async step(run) {
        const n = ++run.state.n;
        await run.tool({ id: `c${n}`, name: "charge", arguments: { n } }, () => "charged");
        if (n === 2) return run.complete();
      },
    }),
    { session: "paid", input: undefined },
  );

describe("tool calls that may be repeated", () => {
  it.each([
    ["rewind", ["rewind", "paid#1"]],
    ["fork", ["fork", "paid#1", "other"]],
    ["restore", ["restore", "paid#1"]],
  ])("%s lists them, and does nothing without a terminal or --yes", async (_, args) => {
    await tool().leave(pay);
    const before = await log("paid");
    const refused = await tool().on(args);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/1 tool call lies after this checkpoint.*\n {2}charge \{"n":2\} {2}step 2, #2/);
    expect(await log("paid")).toEqual(before);
    expect((await tool().on([...args, "--yes"])).code).toBe(0);
  });

  it("log says what happened since the parent of each checkpoint", async () => {
    await tool().leave(pay);
    const [line = ""] = (await tool().text(["log", "paid"])).split("\n").filter((each) => each.includes("#1 "));
    expect(line).toMatch(/#1 {2}step 1 {2}\d+s ago {2}charge {2}\d+ ms$/);
    expect((await log("paid"))[0]).toMatchObject({ activity: { tools: [{ name: "charge", callId: "c2" }] } });
  });
});

describe("rewind", () => {
  it("rewind keeps the previous head reachable and says how to undo it", async () => {
    const ids = await tool().leave((sp) => saveTrip(sp));
    const ended = await tool().on(["rewind", "trip#1"]);
    expect(ended.code, ended.stderr).toBe(0);
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 1 });
    const undo = /savepoint (rewind \S+)/.exec(ended.stderr)?.[1] ?? "";
    await tool().json(undo.split(" "));
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
    const all = (await log("trip")).map(({ id }) => id);
    for (const id of ids) expect(all).toContain(id);
  });

  it("--branch rewinds another branch", async () => {
    await tool().leave((sp) => saveTrip(sp));
    await tool().json(["fork", "trip#3", "side"]);
    const done = await tool().json(["rewind", "trip#1", "--branch", "side"]);
    expect(done["checkpoint"]).toMatchObject({ branch: "side", sessionId: "trip" });
    expect(await stateOf(tool(), "trip", "side")).toMatchObject({ n: 1 });
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
    await tool().fail(["rewind", "trip#1", "--branch", "nowhere"], 4);
  });

  it("rewind refers to restore for checkpoints of agents", async () => {
    const whole = await tool().leave((sp) => saveAgent(sp));
    expect((await tool().fail(["rewind", whole], 2)).message).toContain("savepoint restore");
  });
});

describe("restore", () => {
  it("--dry-run lists the changes, restore applies them, and a second restore undoes them", async () => {
    const whole = await tool().leave((sp) => saveAgent(sp));
    const plan = await tool().json(["restore", whole, "--dry-run"]);
    expect(plan).toMatchObject({
      agent: "planner",
      restored: [{ id: "first" }],
      recreated: ["gone"],
      removed: ["newer"],
    });
    expect(await tool().leave(async (sp) => (await sp.agents.load("planner"))?.state)).toEqual({ mood: "bad" });

    const done = await tool().on(["restore", whole.slice(-8), "--yes"]);
    expect(done.code, done.stderr).toBe(0);
    await tool().leave(async (sp) => {
      expect((await sp.agents.load("planner"))?.state).toEqual({ mood: "good" });
      expect(await sp.conversations.load("gone")).toBeDefined();
      expect(await sp.conversations.load("newer")).toBeUndefined();
    });

    const undo = /To undo: savepoint (restore \S+)/.exec(done.stderr)?.[1] ?? "";
    await tool().json([...undo.split(" "), "--yes"]);
    await tool().leave(async (sp) => {
      expect((await sp.agents.load("planner"))?.state).toEqual({ mood: "bad" });
      expect(await sp.conversations.load("newer")).toBeDefined();
      expect((await sp.verify({ deep: true })).ok).toBe(true);
    });
  });

  it("restore prints a command with npx if npx has found the program", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const { stderr } = await tool().on(["restore", "trip#0", "--yes"], { env: { npm_command: "exec" } });
    expect(stderr).toMatch(/^To undo: npx savepoint restore trip#\d+ --store /m);
  });

  it("restore works for sessions and can be undone with the printed command", async () => {
    await tool().leave((sp) => saveTrip(sp));
    expect((await tool().on(["restore", "trip#0", "--dry-run"])).stdout).toContain("would change");
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
    const done = await tool().on(["restore", "trip#0", "--yes"]);
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 0 });
    const undo = /To undo: savepoint (restore \S+)/.exec(done.stderr)?.[1] ?? "";
    await tool().json([...undo.split(" "), "--yes"]);
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
  });

  it("restore changes nothing without a terminal and without --yes", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const refused = await tool().on(["restore", "trip#0"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("--yes");
    expect(await seqs("trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it("restore --json prints only the error", async () => {
    await tool().leave((sp) => saveTrip(sp));
    await tool().fail(["restore", "trip#0"], 2);
  });
});

describe("label and pin", () => {
  it("label sets and removes labels", async () => {
    const ids = await tool().leave((sp) => saveTrip(sp));
    const label = 'before "the refund", §5';
    expect(await tool().json(["label", "trip#3", label])).toEqual({
      checkpoint: ids[3],
      session: "trip",
      seq: 3,
      label,
    });
    expect((await tool().json(["show", "trip#3", "--info"]))["label"]).toBe(label);
    const refused = await tool().on(["label", "trip#2", "red \u001b[31m"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).not.toContain("\u001b");
    expect(await tool().json(["label", "trip#3", "--remove"])).toMatchObject({ label: null });
    expect((await tool().json(["show", "trip#3", "--info"]))["label"]).toBeUndefined();
    await tool().json(["label", "trip#3", "--", "--remove"]);
    expect((await tool().json(["show", "trip#3", "--info"]))["label"]).toBe("--remove");
  });

  it("pin protects a checkpoint from prune until the pin is removed", async () => {
    await tool().leave((sp) => saveTrip(sp));
    expect(await tool().json(["pin", "trip#3"])).toMatchObject({ session: "trip", seq: 3, pinned: true });
    await tool().json(["prune", "--session", "trip", "--keep-last", "1", "--yes"]);
    expect(await seqs("trip")).toEqual([4, 3, 2, 1]);
    expect(await tool().json(["pin", "trip#3", "--remove"])).toMatchObject({ pinned: false });
    await tool().json(["prune", "--session", "trip", "--keep-last", "1", "--yes"]);
    expect(await seqs("trip")).toEqual([4, 2, 1]);
  });

  it("label requires a label or --remove, and a checkpoint of a session", async () => {
    const whole = await tool().leave(async (sp) => {
      await saveTrip(sp);
      return saveAgent(sp);
    });
    await tool().fail(["label", "trip#3"], 2);
    await tool().fail(["label", "trip#3", "x", "--remove"], 2);
    await tool().fail(["label", "nowhere#3", "x"], 4);
    await tool().fail(["pin", whole], 2);
    await tool().fail(["pin"], 2);
    await tool().fail(["label", "trip#3", ""], 2);
  });
});

describe("delete", () => {
  it("delete removes a checkpoint, a conversation, a session, and an agent with its contents", async () => {
    await tool().leave(async (sp) => {
      await saveTrip(sp);
      await saveTrip(sp, "other");
      await saveAgent(sp);
    });
    expect(await tool().json(["delete", "trip#3", "--yes"])).toMatchObject({ deleted: true });
    expect(await seqs("trip")).toEqual([4, 2, 1, 0]);
    await tool().json(["delete", "--conversation", "newer", "--yes"]);
    await tool().json(["delete", "--session", "other", "--yes"]);
    await tool().leave(async (sp) => {
      expect(await sp.conversations.load("newer")).toBeUndefined();
      expect(await sp.sessions.load("other")).toBeUndefined();
    });
    await tool().json(["delete", "--agent", "planner", "--yes"]);
    await tool().leave(async (sp) => {
      expect(await sp.agents.load("planner")).toBeUndefined();
      expect(await sp.sessions.list().all()).toEqual([]);
      expect(await sp.conversations.list().all()).toEqual([]);
    });
    expect(await tool().json(["verify", "--deep"])).toMatchObject({ ok: true });
  });

  it("delete rejects names of branch heads, unknown ids, several targets and no target", async () => {
    await tool().leave((sp) => saveTrip(sp));
    expect((await tool().fail(["delete", "trip", "--yes"], 2)).message).toContain("trip#4");
    await tool().fail(["delete", "trip@main", "--yes"], 2);
    await tool().fail(["delete", "trip#9", "--yes"], 4);
    await tool().fail(["delete", "--session", "trap", "--yes"], 4);
    await tool().fail(["delete", "--conversation", "nowhere", "--yes"], 4);
    await tool().fail(["delete", "--agent", "nobody", "--yes"], 4);
    await tool().fail(["delete", "trip#1", "--session", "trip", "--yes"], 2);
    await tool().fail(["delete", "--yes"], 2);
    expect(await seqs("trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it("delete changes nothing without a terminal and without --yes", async () => {
    await tool().leave((sp) => saveTrip(sp));
    expect((await tool().fail(["delete", "--session", "trip"], 2)).message).toContain("--yes");
    expect((await tool().fail(["prune", "--keep-last", "1"], 2)).message).toContain("--yes");
    expect(await seqs("trip")).toEqual([4, 3, 2, 1, 0]);
  });
});

describe("a part of a state", () => {
  it("a part of a state cannot be deleted", async () => {
    await tool().leave((sp) => saveTrip(sp));
    await tool().fail(["delete", "trip#3:/messages/1", "--yes"], 2);
  });

  it("a part of a state cannot be restored or rewound to", async () => {
    await tool().leave((sp) => saveTrip(sp));
    await tool().fail(["restore", "trip#3:/messages", "--yes"], 2);
    await tool().fail(["rewind", "trip#3:/messages"], 2);
  });
});

describe("confirmation on a terminal", () => {
  it("delete deletes after the answer yes", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const terminal = tool().terminalOn(["delete", "trip#3"]);
    await terminal.seen("cannot be undone");
    terminal.type("y");
    const { code, screen } = await terminal.ended;
    expect({ code, deleted: screen.includes("Deleted checkpoint trip#3") }).toEqual({ code: 0, deleted: true });
    expect(await seqs("trip")).toEqual([4, 2, 1, 0]);
  });

  it("delete deletes nothing after the answer no or Enter", async () => {
    await tool().leave((sp) => saveTrip(sp));
    for (const keys of ["n", ENTER]) {
      const terminal = tool().terminalOn(["delete", "--session", "trip"]);
      await terminal.seen("cannot be undone");
      terminal.type(keys);
      const { code, screen } = await terminal.ended;
      expect(code, screen).toBe(0);
      expect(screen).not.toContain("Deleted");
    }
    expect(await seqs("trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it.each([
    ["Ctrl-C", CTRL_C],
    ["Ctrl-D", "\u0004"],
  ])("%s at the question exits with 130 and changes nothing", async (_, key) => {
    await tool().leave((sp) => saveTrip(sp));
    for (const args of [
      ["delete", "trip#3"],
      ["restore", "trip#0"],
      ["prune", "--keep-last", "1"],
    ]) {
      // One test with keys from a real terminal.
      const terminal = args[0] === "delete" ? tool().spawnTerminalOn(args) : tool().terminalOn(args);
      await terminal.seen(/\?.*No/s);
      terminal.type(key);
      const { code, screen } = await terminal.ended;
      expect({ code, args }).toEqual({ code: 130, args });
      expect(screen).toContain("Interrupted");
    }
    expect(await seqs("trip")).toEqual([4, 3, 2, 1, 0]);
  });
});
