/** Repairs from backups that are older than the damage, from several, from damaged ones, and from those of other stores. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { type BackgroundFailureEvent, message, type Savepoint, type VerifyProblem } from "../../src/index.js";
import {
  branchKey,
  conversationKey,
  journalKey,
  rowKey,
  runKey,
  sessionKey,
  tapeName,
} from "../../src/records/index.js";
import { asker, PLACES, type State, useGround } from "./world.js";

describe.each(PLACES)("repairing $name from backups", (place) => {
  const ground = useGround();
  let folder: string;
  let backups: string;
  beforeEach(() => {
    folder = ground.folder();
    backups = join(folder, "backups");
  });

  const open = (): Promise<Savepoint> => ground.open(place.url(folder));
  const flip = (key: string): Promise<void> => place.damage(folder, { kind: "record", key }, "flip");
  const states = async (sp: Savepoint, id = "s"): Promise<unknown[]> => {
    const history = await sp.session(id).history({ allBranches: true, order: "oldest" }).all();
    return Promise.all(history.map(async (info) => (await sp.session(id).load(info.id))?.state));
  };

  /** Whose items are lost. */
  const sessionsOf = (holes: readonly VerifyProblem[]): unknown[] => [
    ...new Set(holes.filter(({ kind }) => kind === "item").map(({ sessionId }) => sessionId)),
  ];

  it("never restores an old head of a branch", async () => {
    const sp = await open();
    const session = sp.session<State>("s");
    await session.save({ messages: ["old"] });
    await sp.backup({ to: backups });
    await session.save({ messages: ["new"] });
    const last = await session.save({ messages: ["newer"] });
    await sp.close();
    await flip(branchKey("s", "main"));
    const again = await open();
    expect(await again.repair({ from: backups })).toMatchObject({ ok: true });
    expect(await again.session("s").latest()).toMatchObject({
      id: last.id,
      state: { messages: ["newer"] },
      skipped: [],
    });
    const saved = await again.session<State>("s").save({ messages: ["newest"] });
    expect(saved).toMatchObject({ parentId: last.id });
    expect(saved.seq).toBeGreaterThan(last.seq);
    expect(await states(again)).toEqual(["old", "new", "newer", "newest"].map((each) => ({ messages: [each] })));
  });

  it("never reuses a number that was assigned since", async () => {
    const sp = await open();
    const session = sp.session<State>("s");
    const first = await session.save({ messages: ["old"] });
    await sp.backup({ to: backups });
    const given = [first];
    for (let n = 0; n < 5; n++) given.push(await session.save({ messages: [`${n}`] }));
    await session.rewind(first.id);
    await session.prune({ keepLast: 1 });
    await sp.close();
    await flip(sessionKey("s"));
    const again = await open();
    expect(await again.repair({ from: backups })).toMatchObject({ ok: true });
    const saved = await again.session<State>("s").save({ messages: ["next"] });
    expect(given.map(({ id }) => id)).not.toContain(saved.id);
    expect(saved.seq).toBeGreaterThan(Math.max(...given.map(({ seq }) => seq)));
    const fork = await again.session<State>("s").fork(saved.id, { branch: "fork" });
    await fork.append("/messages", ["on the fork"]);
    expect((await fork.latest())?.state).toEqual({ messages: ["next", "on the fork"] });
    expect(await again.verify({ deep: true })).toMatchObject({ ok: true });
  });

  it("does not bring back data that was pruned or deleted since", async () => {
    const sp = await open();
    const session = sp.session<State>("s");
    for (let n = 0; n < 6; n++) await session.save({ messages: [`${n}`] });
    await sp.session("gone").save({ messages: ["gone"] });
    await sp.conversations.create({ id: "gone", messages: [message.user("gone")] });
    await sp.backup({ to: backups });
    await session.prune({ keepLast: 2 });
    await sp.sessions.delete("gone");
    await sp.conversations.delete("gone");
    const before = await states(sp);
    await sp.close();
    await flip(rowKey(0, 4));
    const again = await open();
    expect(await again.repair({ from: backups })).toMatchObject({ ok: true });
    expect(await states(again)).toEqual(before);
    expect(await again.sessions.load("gone")).toBeUndefined();
    expect(await again.conversations.load("gone")).toBeUndefined();
    expect((await again.session("s").latest())?.state).toEqual({ messages: ["5"] });
  });

  it("keeps branches that are newer than the backup", async () => {
    const sp = await open();
    const session = sp.session<State>("s");
    const first = await session.save({ messages: ["one"] });
    await sp.backup({ to: backups });
    const side = await session.fork(first.id, { branch: "side" });
    const aside = await side.append("/messages", ["aside"]);
    await sp.close();
    await flip(rowKey(0, 0));
    await flip(branchKey("s", "side"));
    const again = await open();
    expect(await again.repair({ from: backups })).toMatchObject({ ok: true });
    const latest = await again.session("s", { branch: "side" }).latest();
    expect(latest).toMatchObject({ id: aside.id, state: { messages: ["one", "aside"] } });
    expect((await again.session("s").load(first.id))?.state).toEqual({ messages: ["one"] });
  });

  it("never restores an older version of a conversation that was continued since", async () => {
    const sp = await open();
    await sp.conversations.create({ id: "c", messages: [message.user("one")] });
    await sp.backup({ to: backups });
    await sp.conversations.append("c", [message.assistant("two")]);
    await sp.conversations.rename("c", "A new title");
    await sp.close();
    await flip(conversationKey("c"));
    const again = await open();
    await again.repair({ from: backups });
    const loaded = await again.conversations.load("c").catch(() => undefined);
    expect(loaded?.messages.map(({ content }) => content) ?? "damaged").toEqual(["one", "two"]);
  });

  it("reports the time of a restored title, tags and archive flag of a conversation", async () => {
    const sp = await open();
    await sp.conversations.create({ id: "c", title: "Old", messages: [message.user("one")] });
    const { createdAt } = await sp.backup({ to: backups });
    await sp.conversations.rename("c", "New");
    await sp.close();
    await flip(conversationKey("c"));
    const { healed } = await (await open()).repair({ from: backups });
    expect(healed).toContainEqual(expect.objectContaining({ conversationId: "c", asOf: createdAt }));
  });

  describe("with runs", () => {
    const keys: [string, string][] = [
      ["its journal", journalKey("w", "main")],
      ["its record", runKey("w", "main")],
      ["its branch", branchKey("w", "main")],
      ["its session", sessionKey("w")],
    ];
    it.each(keys)("never executes effects again if %s is damaged", async (_, key) => {
      const log: string[] = [];
      const sp = await open();
      await sp.run(asker(log), { session: "w", input: "go" });
      await sp.backup({ to: backups });
      await sp.answer("w", "yes");
      expect(await sp.run(asker(log), { session: "w", input: "go" })).toMatchObject({ status: "completed" });
      await sp.close();
      await flip(key);
      const again = await open();
      await again.repair({ from: backups });
      await again.answer("w", "yes").catch(() => {});
      await again.run(asker(log), { session: "w", input: "go" }).catch(() => {});
      for (const handle of await again.recover([asker(log)]).catch(() => [])) await handle.result().catch(() => {});
      expect(log).toEqual(["before", "after"]);
    });

    it.each(keys)("never executes effects from before a wait again if %s is damaged", async (_, key) => {
      const log: string[] = [];
      const sp = await open();
      await sp.session("w").history().all();
      await sp.backup({ to: backups });
      await sp.run(asker(log), { session: "w", input: "go" });
      await sp.backup({ to: backups });
      await sp.close();
      await flip(key);
      const again = await open();
      await again.repair({ from: backups });
      await again.answer("w", "yes").catch(() => {});
      await again.run(asker(log), { session: "w", input: "go" }).catch(() => {});
      expect(log.filter((each) => each === "before")).toHaveLength(1);
    });
  });

  it("restores each part from the first source that has it, files and folders", async () => {
    const sp = await open();
    const session = sp.session<State>("s");
    await session.save({ messages: ["x".repeat(400)] });
    const first = await sp.backup({ to: join(folder, "one") });
    await sp.session<State>("t").save({ messages: ["y".repeat(400)] });
    await sp.backup({ to: join(folder, "two") });
    await sp.close();
    await place.damage(folder, { kind: "item", tape: tapeName(0, 0), item: 0 }, "flip");
    await place.damage(folder, { kind: "item", tape: tapeName(1, 0), item: 0 }, "flip");
    const again = await open();
    expect(await again.repair({ from: first.path, dryRun: true })).toMatchObject({ ok: false });
    const half = await again.repair({ from: first.path });
    expect(half).toMatchObject({ ok: false, dryRun: false });
    expect(sessionsOf(half.holes)).toEqual(["t"]);
    expect(await again.repair({ from: [first.path, join(folder, "two")] })).toMatchObject({ ok: true });
    expect((await again.session("t").latest())?.state).toEqual({ messages: ["y".repeat(400)] });
  });

  it("uses a damaged bundle up to the damage", async () => {
    const sp = await open();
    for (const id of ["s", "t"]) await sp.session<State>(id).save({ messages: [id.repeat(400)] });
    const { path } = await sp.backup({ to: backups });
    await sp.close();
    const bytes = readFileSync(path);
    const at = bytes.indexOf("t".repeat(100));
    writeFileSync(path, bytes.fill("u", at, at + 1));
    for (const number of [0, 1]) {
      await place.damage(folder, { kind: "item", tape: tapeName(number, 0), item: 0 }, "flip");
    }
    const again = await open();
    const { holes } = await again.repair({ from: backups });
    expect(sessionsOf(holes)).toEqual(["t"]);
    expect((await again.session("s").latest())?.state).toEqual({ messages: ["s".repeat(400)] });
    await expect(again.session("t").latest()).rejects.toMatchObject({ code: "DAMAGED" });
  });

  it("emits an event for a damaged bundle", async () => {
    const sp = await open();
    await sp.session<State>("s").save({ messages: ["s".repeat(400)] });
    const { path } = await sp.backup({ to: backups });
    await sp.close();
    writeFileSync(path, readFileSync(path).subarray(0, -40));
    await flip(rowKey(0, 0));
    const told: BackgroundFailureEvent[] = [];
    const on = { damage: () => {}, backgroundFailure: (event: BackgroundFailureEvent) => void told.push(event) };
    await (await ground.open(place.url(folder), { on })).repair({ from: backups });
    expect(told).toHaveLength(1);
  });

  /** Two stores that have assigned the same ids and numbers to different data. */
  async function foreigner(): Promise<void> {
    const foreign = await ground.open(place.url(ground.folder()), { now: () => 1_000_000 });
    const own = await open();
    const both = [
      [foreign, "foreign"],
      [own, "own"],
    ] as const;
    for (const [sp, what] of both) {
      await sp.session<State>("s").save({ messages: [what.repeat(100)] });
      await sp.conversations.create({ id: "c", messages: [message.user(what)] });
    }
    await foreign.backup({ to: backups });
    await own.close();
  }

  it("restores no states from a bundle of another store", async () => {
    await foreigner();
    await place.damage(folder, { kind: "item", tape: tapeName(0, 0), item: 0 }, "flip");
    await flip(rowKey(0, 0));
    const again = await open();
    expect(sessionsOf((await again.repair({ from: backups })).holes)).toEqual(["s"]);
    await expect(again.session("s").latest()).rejects.toMatchObject({ code: "DAMAGED" });
  });

  it("restores no messages from a bundle of another store", async () => {
    await foreigner();
    await place.damage(folder, { kind: "item", tape: tapeName(1, 0), item: 0 }, "flip");
    const again = await open();
    expect(await again.repair({ from: backups })).toMatchObject({ ok: false });
    await expect(again.conversations.load("c")).rejects.toMatchObject({ code: "DAMAGED" });
  });

  it("rejects unknown options", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    await expect(sp.repair({ form: "x" } as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("fails with a SavepointError if a source is missing", async () => {
    const sp = await open();
    await expect(sp.repair({ from: join(folder, "nowhere") })).rejects.toMatchObject({ name: "SavepointError" });
  });
});
