// doctor, demo, mcp, and the output that programs rely on.
import { createInterface } from "node:readline";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { DamageTarget } from "savepoint/testing";
import { SQLITE, targetsIn } from "../damage/world.js";
import { type Ended, errorOf, BUILT_LIBRARY } from "./command.js";
import { type Fields, saveAgent, saveTrip, usePlace } from "./place.js";

const tool = usePlace();

describe("doctor", () => {
  const states = (findings: readonly Fields[]): Record<string, unknown> =>
    Object.fromEntries(findings.map(({ check, state }) => [check, state]));

  it("doctor reports no problem for an intact store", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const findings = await tool().json<Fields[]>(["doctor"]);
    expect(states(findings)).toMatchObject({
      savepoint: "ok",
      sqlite: "ok",
      store: "ok",
      shutdown: "ok",
      damage: "ok",
    });
    for (const finding of findings) expect(Object.keys(finding).slice(0, 3)).toEqual(["check", "state", "detail"]);
    const text = await tool().on(["doctor"]);
    expect(text.stdout).toMatch(/^damage +ok +none found in 5 checkpoints/m);
  });

  it("doctor reports a crashed process every time, because it modifies nothing", async () => {
    const program = tool().file(
      "die.mjs",
      `import { Savepoint } from "${BUILT_LIBRARY}";
       const sp = await Savepoint.open(process.argv[2]);
       await sp.session("s").save({ n: 1 });
       process.kill(process.pid, "SIGKILL");`,
    );
    const { spawnSync } = await import("node:child_process");
    expect(spawnSync(process.execPath, [program, tool().url]).signal).toBe("SIGKILL");
    for (let n = 0; n < 2; n++) {
      expect(states(await tool().json<Fields[]>(["doctor"]))).toMatchObject({ shutdown: "note", damage: "ok" });
    }
    // The next process that opens the store for writing is informed.
    const sp = await tool().open();
    expect(sp.lastShutdown.clean).toBe(false);
  });

  it("doctor exits with 20 if something is damaged and says what to do", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const target = (await targetsIn(tool().url)).find(
      (each) => each.kind === "record" && each.key.includes("trip"),
    ) as DamageTarget;
    await SQLITE.damage(tool().folder, target, "flip");
    const findings = await tool().json<Fields[]>(["doctor"], 20);
    expect(states(findings)).toMatchObject({ store: "ok", damage: "problem" });
    expect(findings.at(-1)?.["advice"]).toContain("savepoint repair");
  });

  it("doctor exits with 10 without a store and creates none", async () => {
    const findings = await tool().json<Fields[]>(["doctor"], 10);
    expect(findings.at(-1)).toMatchObject({
      check: "store",
      state: "problem",
      advice: expect.stringContaining("init"),
    });
    expect((await tool().run(["doctor"])).code).toBe(10);
    expect(readdirSync(tool().folder)).toEqual([]);
  });
});

describe("demo", () => {
  it("demo kills an agent twice, repeats nothing and leaves a store behind", async () => {
    const text = await tool().spawn(["demo", "--kills", "2", "--seed", "7"], { stdin: "" }).ended;
    expect(text.code, text.stderr).toBe(0);
    expect(text.stdout).toContain("0 recorded effects repeated");
    expect(text.stdout.split("  KILL ").length - 1).toBe(2);
    // The command to repeat the demo works without a checkout.
    expect(text.stdout).toContain("npx savepoint demo --kills 2 --seed 7");
    expect(text.stdout).not.toContain("npm run");
    const [, look = ""] = /npx savepoint (.*)$/m.exec(text.stderr) ?? [];
    const looked = await tool().run(look.split(" "));
    expect(looked.code, looked.stderr).toBe(0);
    expect(looked.stdout).toContain("session orders");
    const json = await tool().spawn(["demo", "--kills", "1", "--json"], { stdin: "" }).ended;
    expect(JSON.parse(json.stdout)).toMatchObject({
      ok: true,
      session: "orders",
      store: "sqlite:savepoint-demo-2/demo.db",
    });
  });

  it("demo ends all its processes when it is interrupted", async () => {
    const started = tool().spawn(["demo", "--kills", "200", "--seed", "7"], { stdin: "" });
    await started.seen("KILL");
    const childrenOf = (pid: string): string[] =>
      readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
    const children = childrenOf(String(started.child.pid));
    expect(children.length).toBe(1);
    started.child.kill("SIGTERM");
    // Ending may take a while on a busy machine.
    const isAlive = (pid: string): boolean => existsSync(`/proc/${pid}`);
    const deadline = Date.now() + 10_000;
    while (children.some(isAlive) && Date.now() < deadline) await sleep(50);
    const left = children.filter(isAlive);
    // Stopped first, so that it starts no new worker while the last one ends.
    for (const child of left) {
      process.kill(Number(child), "SIGSTOP");
      for (const each of [...childrenOf(child), child]) process.kill(Number(each), "SIGKILL");
    }
    expect(left).toEqual([]);
  });
});

describe("mcp", () => {
  const INITIALIZE = {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "test", version: "1" },
  };

  it("mcp serves over stdio, prints nothing else there and ends when stdin closes", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const server = tool().spawnOn(["mcp"]);
    const lines = createInterface({ input: server.child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
    const ask = async (id: number, method: string, params: object): Promise<Fields> => {
      server.child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
      return JSON.parse((await lines.next()).value as string) as Fields;
    };
    expect(await ask(1, "initialize", INITIALIZE)).toMatchObject({ id: 1, result: { serverInfo: expect.anything() } });
    server.child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
    const listed = await ask(2, "tools/list", {});
    const { tools } = listed["result"] as { tools: { annotations?: { readOnlyHint?: boolean } }[] };
    expect(tools.length).toBeGreaterThan(0);
    for (const each of tools) expect(each.annotations?.readOnlyHint).toBe(true);
    server.child.stdin?.end();
    const { code, stderr } = await server.ended;
    expect(code, stderr).toBe(0);
  });

  it("mcp --write offers more tools and creates the store", async () => {
    const server = tool().spawnOn(["mcp", "--write"]);
    server.child.stdin?.write(
      `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: INITIALIZE })}\n`,
    );
    await server.seen("serverInfo");
    server.child.kill("SIGTERM");
    expect((await server.ended).code).toBe(130);
    expect(existsSync(tool().path("s.db"))).toBe(true);
  });

  it("mcp does not start on a store that does not exist", async () => {
    errorOf(await tool().on(["mcp", "--json"]), 10);
    expect(readdirSync(tool().folder)).toEqual([]);
  });
});

describe("output for programs", () => {
  it("every verb that needs a store exits with 10 without one and creates none", async () => {
    const verbs = [
      ["fork", "s#1"],
      ["rewind", "s#1"],
      ["restore", "s#1", "--yes"],
      ["label", "s#1", "x"],
      ["pin", "s#1"],
      ["delete", "s#1", "--yes"],
      ["export", "-o", "x"],
      ["backup", "--to", "b"],
      ["prune", "--keep-last", "1"],
      ["compact"],
      ["verify"],
      ["repair"],
      ["answer", "s", "--text", "x"],
      ["cancel", "s"],
      ["watch"],
      ["migrate"],
    ];
    const all = await Promise.all(verbs.map((args) => tool().on([...args, "--json"])));
    for (const ended of all) expect(errorOf(ended, 10).code).toBe("STORE_NOT_FOUND");
    expect(readdirSync(tool().folder)).toEqual([]);
  });

  it("--jsonl prints one object on one line, with the same keys as --json", async () => {
    const whole = await tool().leave(async (sp) => {
      await saveTrip(sp);
      return saveAgent(sp);
    });
    const shapes: [string[], string][] = [
      [["restore", whole, "--dry-run"], "agent changes erased recreated removed restored"],
      [["label", "trip#1", "x"], "checkpoint label seq session"],
      [["pin", "trip#1"], "checkpoint pinned seq session"],
      [["prune", "--keep-last", "1", "--dry-run"], "bytes dryRun gone items kept removed rowsOnly"],
      [["verify"], "blobs checkpoints conversations deep items ok problems records sessions"],
      [["repair", "--dry-run"], "dryRun healed holes ok"],
      [["export", "-o", "x.savepoint"], "bytes checkpoints createdAt holes id items kind path sections"],
      [["backup", "--to", "b"], "bytes checkpoints createdAt holes items path removed sections"],
      [["migrate"], "migrated store"],
      [["compact"], "after before blobs bytes complete items sessions"],
      [["cancel", "trip"], "cancelled session"],
      [["fork", "trip#1"], "branch effectsAfter from head session"],
    ];
    const inForm = (form: string): Promise<Ended[]> => Promise.all(shapes.map(([args]) => tool().on([...args, form])));
    const [asJson, asLines] = [await inForm("--json"), await inForm("--jsonl")];
    for (const [index, [args, keys]] of shapes.entries()) {
      const [json, jsonl] = [asJson[index], asLines[index]];
      expect(json?.code, `${args.join(" ")}: ${json?.stderr}`).toBe(0);
      expect(jsonl?.stdout.trim().split("\n"), args.join(" ")).toHaveLength(1);
      const shape = (text = ""): string =>
        Object.keys(JSON.parse(text) as Fields)
          .sort()
          .join(" ");
      expect({ args, keys: shape(json?.stdout) }).toEqual({ args, keys });
      expect({ args, keys: shape(jsonl?.stdout) }).toEqual({ args, keys });
    }
  });

  it("piped output contains no colours, no progress bar and no question", async () => {
    await tool().leave((sp) => saveTrip(sp));
    const all = await Promise.all(
      [["doctor"], ["verify"], ["prune", "--keep-last", "1", "--dry-run"], ["rewind", "trip#1"]].map((args) =>
        tool().on(args),
      ),
    );
    for (const { code, stdout, stderr } of all) {
      expect(code).toBe(0);
      expect(stdout + stderr).not.toContain("\u001b");
    }
    const coloured = await tool().on(["doctor", "--color"]);
    expect(coloured.stdout).toContain("\u001b[");
  });

  it("an unknown verb is reported with a suggestion", async () => {
    expect(errorOf(await tool().run(["verfy", "--json"]), 2).message).toContain("verify");
  });
});
