/** What AetherShell promised or got wrong, line by line, as far as the tests of agents and their checkpoints do not cover it. */
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { agentHistoryId, branchKey, conversationKey, rowKey } from "../../src/records/index.js";
import { AGENT, begin, everythingOf, FAST, idsIn, saveAgent, talk, texts } from "../checkpoints/agent-data.js";
import { STORES, useData } from "../model/stores.js";
import { codeOf, errorOf } from "../run/lab.js";
import { PLACES } from "./places.js";

describe.each(STORES)("AetherShell on $name", (kind) => {
  const data = useData(kind);

  it("003-S15: appending a message to a missing conversation throws and does not create the conversation", async () => {
    const sp = await data.open(FAST);
    const error = await errorOf(sp.conversations.append("nowhere", [message.user("Hello?")]));
    expect(error.code).toBe("CONVERSATION_NOT_FOUND");
    expect(error.message).toContain("nowhere");
    expect(await sp.conversations.list().all()).toEqual([]);
  });

  it("003-U1: states of earlier versions are migrated when they are loaded, and newer ones are rejected unchanged", async () => {
    const old = await data.open(FAST);
    await old.agents.save({ id: AGENT, name: "Test", state: { solved: 3 } });
    await old.session("s", { agent: AGENT }).save({ city: "Lisbon" });
    const { id } = await old.checkpoints.create({ agent: AGENT });
    const migrations = {
      [AGENT]: {
        agent: [(state: { solved: number }) => ({ total: state.solved }), (state: object) => ({ ...state, open: 0 })],
        session: [(state: object) => ({ ...state, language: "en" })],
      },
    };
    const sp = await data.open({ ...FAST, migrations });
    expect((await sp.agents.load(AGENT))?.state).toEqual({ total: 3, open: 0 });
    expect((await sp.session("s", { agent: AGENT }).latest())?.state).toEqual({ city: "Lisbon", language: "en" });
    await sp.agents.update(AGENT, { name: "Newer" });
    await sp.checkpoints.restore(id);
    expect((await sp.agents.load(AGENT))?.state).toEqual({ total: 3, open: 0 });
    await sp.agents.update(AGENT, { name: "Newest" });
    const behind = await data.open({ ...FAST, migrations: { [AGENT]: { agent: [(state: unknown) => state] } } });
    expect(await codeOf(behind.agents.load(AGENT))).toBe("AGENT_TOO_OLD");
    expect((await sp.agents.load(AGENT))?.name).toBe("Newest");
  });

  it("003-U2: a session can be rewound to one labelled checkpoint after another, and each rewind can be undone", async () => {
    const sp = await data.open(FAST);
    const session = sp.session<{ files: Record<string, string> }>("s");
    await session.save({ files: { a: "1" } }, { label: "begin" });
    await session.save({ files: { a: "2", b: "1" } }, { label: "middle" });
    const end = await session.save({ files: {} });
    const plan = await sp.checkpoints.restore((await session.load({ label: "middle" }))?.id ?? "", { dryRun: true });
    expect(plan.changes).toHaveLength(2);
    expect((await session.head())?.id).toBe(end.id);
    await session.rewind({ label: "middle" });
    expect((await session.latest())?.state.files).toEqual({ a: "2", b: "1" });
    await session.rewind({ label: "begin" });
    expect((await session.latest())?.state.files).toEqual({ a: "1" });
    const all = await session.history({ allBranches: true }).all();
    const kept = all.filter(({ kind: why }) => why === "preOperation");
    expect(kept).toHaveLength(2);
    for (const [n, files] of [{ a: "2", b: "1" }, {}].entries()) {
      await session.rewind(kept[n]?.id ?? "");
      expect((await session.latest())?.state.files).toEqual(files);
    }
  });

  it("003-B5: a checkpoint contains all conversations, or it is not created", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const ids = Array.from({ length: 30 }, (_, n) => `c${n}`);
    for (const id of ids) await begin(sp, id, id);
    const appending = Promise.all(ids.map((id) => talk(sp, id, "meanwhile")));
    const checkpoint = await sp.checkpoints.create({ agent: AGENT });
    await appending;
    for (const id of ids) {
      const then = await texts(sp, id, checkpoint.id);
      expect(then?.[0]).toBe(id);
    }
    await sp.checkpoints.restore(checkpoint.id);
    expect((await idsIn(sp.conversations.list({ agent: AGENT }))).sort()).toEqual(ids.slice().sort());
  });
});

describe.each(PLACES)("AetherShell, with damage, on $name", (place) => {
  const file = place.useDamageable();

  it("003-S14: a damaged checkpoint is rejected by restore, and nothing changes", async () => {
    const sp = await file.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "hello");
    const { id, seq } = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2);
    await talk(sp, "c", "more");
    const then = await everythingOf(sp);
    file.flip(rowKey(0, seq));
    const again = await file.open(FAST);
    expect(await codeOf(again.checkpoints.restore(id))).toBe("DAMAGED");
    expect(await everythingOf(again)).toEqual(then);
    expect(await again.checkpoints.list({ kind: "preOperation" }).all()).toEqual([]);
  });

  it("003-B5: an unreadable conversation is reported, never silently left out of a checkpoint", async () => {
    const sp = await file.open(FAST);
    await saveAgent(sp, 1);
    for (const id of ["whole", "broken"]) await begin(sp, id, id);
    file.flip(conversationKey("broken"));
    const again = await file.open(FAST);
    const code = await codeOf(again.checkpoints.create({ agent: AGENT }));
    expect([code, file.events.length > 0]).not.toEqual(["none", false]);
  });

  it("003-B7: unreadable entries that a list leaves out are reported", async () => {
    const sp = await file.open(FAST);
    await saveAgent(sp, 1);
    await sp.agents.save({ id: "other", name: "Other" });
    for (const id of ["whole", "broken"]) await begin(sp, id, id);
    file.flip(conversationKey("broken"));
    file.flip(branchKey(agentHistoryId("other"), "main"));
    const again = await file.open(FAST);
    expect(await idsIn(again.conversations.list())).toEqual(["whole"]);
    expect(file.events.length).toBeGreaterThan(0);
    const told = file.events.length;
    expect((await again.agents.list().all()).map(({ id }) => id)).toEqual([AGENT]);
    expect(file.events.length).toBeGreaterThan(told);
  });
});
