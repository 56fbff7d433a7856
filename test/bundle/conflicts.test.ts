/** Imports of data that exists already, invalid arguments, and bundles made by an attacker. */
import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { codeOf } from "../run/lab.js";
import { forge } from "./bytes.js";
import { agentOf, fillAgent, fillSession, sessionOf, wholeOf } from "./whole.js";

const open = (): Promise<Savepoint> => Savepoint.open("memory:", { on: { damage: () => {} } });

describe("an import of data that exists already", () => {
  it("skips it if it is the same, however often it is imported", async () => {
    const [a, b] = [await open(), await open()];
    await fillAgent(a, "a");
    await fillSession(a, "s");
    const bytes = await a.export().bytes();
    await b.import(bytes);
    const before = await wholeOf(b);
    for (const again of [bytes, await a.export().bytes(), await a.export({ session: "s" }).bytes()]) {
      const report = await b.import(again);
      expect(report).toMatchObject({ sessions: 0, conversations: 0, checkpoints: 0 });
      expect(report.skipped).toContain("s");
      assert.deepEqual(await wholeOf(b), before);
    }
  });

  it("skips a session that was imported before and was changed since", async () => {
    const [a, b] = [await open(), await open()];
    await fillSession(a, "s");
    const bytes = await a.export().bytes();
    await b.import(bytes);
    await b.session("s").save({ n: 100, messages: [] });
    const before = await sessionOf(b, "s");
    expect(await b.import(bytes)).toMatchObject({ skipped: ["s"] });
    assert.deepEqual(await sessionOf(b, "s"), before);
  });

  it("skips an agent that was imported before and was saved since", async () => {
    const [a, b] = [await open(), await open()];
    await fillAgent(a, "a");
    const bytes = await a.export({ agent: "a" }).bytes();
    await b.import(bytes);
    await b.agents.update("a", { state: { more: 1 } });
    const before = await agentOf(b, "a");
    expect((await b.import(bytes)).skipped).toContain("a");
    assert.deepEqual(await agentOf(b, "a"), before);
  });

  it("fails with CONFLICT if it differs, and changes nothing", async () => {
    const [a, b] = [await open(), await open()];
    for (const sp of [a, b]) {
      await fillSession(sp, "s");
      await sp.conversations.create({ id: "c", messages: [message.user(sp === a ? "a" : "b")] });
    }
    await a.session("t").save(1);
    const before = await wholeOf(b);
    for (const target of [{}, { session: "s" }]) {
      expect(await codeOf(b.import(a.export(target)))).toBe("CONFLICT");
      assert.deepEqual(await wholeOf(b), before);
    }
    const report = await b.import(a.export(), { existing: "skip" });
    expect(report.skipped.slice().sort()).toEqual(["c", "s"]);
    assert.deepEqual(await sessionOf(b, "s"), before["sessions"] && (before["sessions"] as never)["s"]);
    expect((await b.conversations.load("c"))?.messages).toEqual([message.user("b")]);
    expect(await b.session("t").latest()).toMatchObject({ state: 1 });
  });

  it("has no conflict if the session gets another id", async () => {
    const sp = await open();
    await fillSession(sp, "s", "agent");
    const before = await sessionOf(sp, "s");
    const bytes = await sp.export({ session: "s" }).bytes();
    expect(await sp.import(bytes, { as: "t" })).toMatchObject({ sessions: 1, skipped: [] });
    assert.deepEqual(await sessionOf(sp, "s"), before);
    const [one, two] = [sp.session("s"), sp.session("t")];
    assert.deepEqual((await two.latest())?.state, (await one.latest())?.state);
    expect((await two.history({ allBranches: true }).all()).map(({ id }) => id)).toEqual(
      (await one.history({ allBranches: true }).all()).map(({ id }) => id),
    );
    await two.save({ n: 1, messages: [] });
    assert.deepEqual(await sessionOf(sp, "s"), before);
    await sp.sessions.delete("t");
    await sp.compact();
    assert.deepEqual(await sessionOf(sp, "s"), before);
    for (const { id } of await one.history({ allBranches: true }).all()) assert.ok(await sp.checkpoints.load(id));
  });
});

describe("an invalid request", () => {
  it("is rejected by an export at once, or when the export is read", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    const wrong: unknown[] = [{ sessions: "s" }, { session: "s", agent: "a" }, { session: "s", checkpoint: "c" }];
    for (const target of wrong) {
      const code = codeOf((async () => sp.export(target as never))());
      expect([target, await code]).toEqual([target, "INVALID_ARGUMENT"]);
    }
    const hostile = ["", "a\tb", "\u0001a", "\ud800", "x".repeat(1025), "a\0"];
    for (const id of hostile) {
      for (const target of [id, { session: id }, { agent: id }, { checkpoint: id }]) {
        const code = codeOf((async () => sp.export(target).bytes())());
        expect([target, await code]).toEqual([target, "INVALID_ID"]);
      }
      expect(await codeOf(sp.import(sp.export({ session: "s" }), { as: id }))).toBe("INVALID_ID");
    }
    expect(await codeOf(sp.export("none").bytes())).toBe("CHECKPOINT_NOT_FOUND");
    expect(await codeOf(sp.export("s#9").bytes())).toBe("CHECKPOINT_NOT_FOUND");
    expect(await codeOf(sp.export({ session: "none" }).bytes())).toBe("SESSION_NOT_FOUND");
    expect(await codeOf(sp.export({ agent: "none" }).bytes())).toBe("AGENT_NOT_FOUND");
    expect(await codeOf(sp.export({ agent: "s" }).bytes())).toBe("AGENT_NOT_FOUND");
    expect((await sp.export("s#0").bytes()).length).toBeGreaterThan(0);
  });

  it("is rejected by an import", async () => {
    const [a, b] = [await open(), await open()];
    await a.session("s").save(1);
    await a.agents.save({ id: "a", name: "A" });
    const bytes = await a.export({ session: "s" }).bytes();
    expect(await codeOf(b.import(bytes, { existing: "overwrite" as never }))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(b.import(a.export(), { as: "t" }))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(b.import(a.export({ agent: "a" }), { as: "t" }))).toBe("INVALID_ARGUMENT");
    expect(await b.stats()).toMatchObject({ sessions: 0, agents: 0 });
  });

  it("with an unknown field is rejected by an import", async () => {
    const [a, b] = [await open(), await open()];
    await a.session("s").save(1);
    expect(await codeOf(b.import(a.export(), { exsiting: "skip" } as never))).toBe("INVALID_ARGUMENT");
  });

  it("to import a checkpoint of an agent under another id is rejected", async () => {
    const [a, b] = [await open(), await open()];
    await a.agents.save({ id: "a", name: "A" });
    const { id } = await a.checkpoints.create({ agent: "a" });
    expect(await codeOf(b.import(a.export(id), { as: "t" }))).toBe("INVALID_ARGUMENT");
  });

  it("with a target or source of the wrong type is rejected", async () => {
    const sp = await open();
    for (const target of [null, 7, true]) {
      expect(await codeOf((async () => sp.export(target as never))())).toBe("INVALID_ARGUMENT");
    }
    for (const source of [undefined, null, 7, {}, [1], ["text"]]) {
      expect([source, await codeOf(sp.import(source as never))]).toEqual([source, "INVALID_ARGUMENT"]);
    }
  });

  it("for a missing file, or on a closed Savepoint, is rejected", async () => {
    const sp = await open();
    await expect(sp.import("/nowhere/at/all")).rejects.toThrow(/ENOENT|not found|no such/i);
    await expect(sp.export().save("/nowhere/at/all")).rejects.toThrow(/ENOENT|not found|no such/i);
    await sp.close();
    expect(await codeOf((async () => sp.export())())).toBe("CLOSED");
    expect(await codeOf(sp.import(new Uint8Array()))).toBe("CLOSED");
  });
});

describe("a bundle made by an attacker", () => {
  /** Imports it into a store with data. Returns whether it was rejected and the data is unchanged. */
  async function tryForged(
    change: (line: Record<string, unknown>) => unknown,
    target: { readonly agent: string } | { readonly session: string } = { agent: "a" },
  ): Promise<string> {
    const [a, b] = [await open(), await open()];
    await a.session("filler").save(0);
    await fillAgent(a, "a");
    for (const id of ["x", "y", "z"]) await fillSession(b, id);
    await fillAgent(b, "b");
    const before = await wholeOf(b);
    const bytes = forge(await a.export(target).bytes(), change);
    const code = await codeOf(b.import(bytes));
    if (code === "none") return "it was taken";
    assert.ok(!code.startsWith("other"), code);
    const after = await wholeOf(b);
    assert.deepEqual((after["agents"] as Record<string, unknown>)["b"], (before["agents"] as never)["b"]);
    assert.deepEqual(after["sessions"], before["sessions"]);
    return "refused";
  }

  it("cannot contain ids that callers may not choose", async () => {
    for (const evil of ["x\tmain", "\u0001b", "", "a\nb"]) {
      const rename = (line: Record<string, unknown>): unknown =>
        line["begin"] === "session" && line["id"] === "a-session" ? { ...line, id: evil } : line;
      expect([evil, await tryForged(rename)]).toEqual([evil, "refused"]);
      const branch = (line: Record<string, unknown>): unknown => ("branch" in line ? { ...line, branch: evil } : line);
      expect([evil, await tryForged(branch)]).toEqual([evil, "refused"]);
      const conversation = (line: Record<string, unknown>): unknown =>
        "conversation" in line ? { ...line, conversation: evil } : line;
      expect([evil, await tryForged(conversation)]).toEqual([evil, "refused"]);
    }
  });

  it("cannot reach data of the store through numbers that the header does not name", async () => {
    for (const number of [-1000, -1, 1.5, 1e15, "0", null]) {
      const move = (line: Record<string, unknown>): unknown =>
        line["begin"] === "session" ? { ...line, number } : line;
      expect([number, await tryForged(move, { session: "a-session" })]).toEqual([number, "refused"]);
    }
    const low = (line: Record<string, unknown>): unknown => {
      if (line["savepoint"] === "bundle") return { ...line, numbers: [1000, 1001] };
      return line["begin"] === "session" ? { ...line, number: 0 } : line;
    };
    expect(await tryForged(low, { session: "a-session" })).toBe("refused");
  });

  it("is what these tests are about", async () => {
    expect(await tryForged((line) => line)).toBe("it was taken");
  });
});
