/** Finding sessions: by project, in lists and by search; and answering their questions. */
import { execFileSync } from "node:child_process";
import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { defineAgent } from "../../src/index.js";
import { resolveProject } from "../../src/mcp/project.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { GENERATIONS } from "./clients.js";
import { useLab } from "./lab.js";

interface Listed {
  readonly session: string;
}

interface Found {
  readonly hits: readonly (Listed & { readonly snippet: string; readonly path?: string; readonly branch?: string })[];
  readonly more: boolean;
}

const asker = defineAgent({
  name: "asker",
  initial: () => ({ answers: [] as unknown[] }),
  async step(run) {
    run.state.answers = [await run.ask("Shall I?"), await run.ask("Really?")];
    return run.complete(run.state.answers);
  },
});

describe.each(GENERATIONS)("sessions, for $name", (generation) => {
  const lab = useLab(generation);

  it("session_resume without a session returns the one that its project saved last, not that of another project", async () => {
    const shop = await lab.connect({ write: true, project: "shop" });
    const blog = await lab.connect({ write: true, project: "blog" });
    await shop.call("session_save", { session: "refund", state: "old" });
    await shop.call("session_save", { session: "checkout", state: "s" });
    await shop.call("session_save", { session: "refund", state: "new", metadata: { n: 1, project: "blog" } });
    const none = await blog.call<{ message: string; candidates: Listed[] }>("session_resume");
    expect(none).not.toHaveProperty("state");
    expect(none.candidates).toMatchObject([
      { session: "refund", project: "shop" },
      { session: "checkout", project: "shop" },
    ]);
    expect(none.message).toContain('"blog"');
    await blog.call("session_save", { session: "post", state: "b" });
    const sp = await lab.open();
    await sp.session("program").save("p");
    expect(await shop.call("session_resume")).toMatchObject({ session: "refund", state: "new" });
    expect(await blog.call("session_resume")).toMatchObject({ session: "post", state: "b" });
    expect(await blog.call("session_resume", { project: "any" })).toMatchObject({ session: "program" });
    // By its id, any session can be resumed.
    expect(await blog.call("session_resume", { session: "refund" })).toMatchObject({
      state: "new",
      checkpoint: { metadata: { n: 1, project: "shop" } },
    });
  });

  it("a session stays in its project after a fork, a restore and a save on a branch", async () => {
    const client = await lab.connect({ write: true, project: "shop" });
    await client.call("session_save", { session: "a", state: 1 });
    await client.call("session_save", { session: "a", state: 2 });
    await client.call("session_save", { session: "b", state: 1 });
    await client.call("checkpoint_restore", { id: "a#0" });
    expect(await client.call("session_resume")).toMatchObject({ session: "a", state: 1 });
    await client.call("session_save", { session: "b", state: 2 });
    await client.call("checkpoint_fork", { session: "a", checkpoint: { seq: 1 }, branch: "x", state: 3 });
    expect(await client.call("session_resume")).toMatchObject({ session: "a", branches: ["main", "x"] });
    const listed = await client.call<{ sessions: Listed[] }>("session_list", { project: "current" });
    expect(listed.sessions.map(({ session }) => session)).toEqual(["b", "a"]);
  });

  it("session_resume reports an empty store, and finds a session behind many checkpoints of others", async () => {
    const client = await lab.connect({ write: true, project: "shop" });
    expect(await client.call("session_resume")).toEqual({
      message: "No session is saved yet. Call session_save to start one.",
      candidates: [],
    });
    await client.call("session_save", { session: "mine", state: "m" });
    const sp = await lab.open();
    const other = sp.session<number>("other");
    await Promise.all(Array.from({ length: 210 }, (_, n) => other.update(() => n)));
    expect(await client.call("session_resume")).toMatchObject({ session: "mine" });
    expect(await client.call("session_resume", { agent: "nobody" })).toMatchObject({ candidates: [] });
  });

  it("session_list is newest first, and filters by agent, status, project and time", async () => {
    let now = Date.parse("2026-01-01T00:00:00Z");
    const sp = await lab.open(() => (now += 60_000));
    for (const n of [1, 2, 3])
      await sp.session(`s${n}`, { agent: n === 2 ? "a" : "b" }).save({ n }, { label: `l${n}` });
    await sp.session("s1").save({ n: 4 }, { status: "completed", resumeHint: "x".repeat(2000) });
    await sp.run(asker, { session: "ask", input: undefined });
    const client = await lab.connect({ write: true, project: "shop" });
    await client.call("session_save", { session: "mine", state: 1, agent: "a" });
    const list = async (args: object): Promise<string[]> => {
      const { sessions } = await client.call<{ sessions: Listed[] }>("session_list", { ...args });
      return sessions.map(({ session }) => session);
    };
    expect(await list({})).toEqual(["mine", "ask", "s3", "s2", "s1"]);
    expect(await list({ agent: "a" })).toEqual(["mine", "s2"]);
    expect(await list({ agent: "nobody" })).toEqual([]);
    expect(await list({ status: "completed" })).toEqual(["s1"]);
    expect(await list({ project: "current" })).toEqual(["mine"]);
    expect(await list({ status: "waiting" })).toEqual(["ask"]);
    const changed = await sp.sessions.load("s1");
    expect(await list({ since: new Date(changed?.updatedAt ?? 0).toISOString() })).toEqual(["mine", "ask", "s1"]);
    expect(await list({ since: Date.now() + 60_000 })).toEqual([]);
    const { sessions } = await client.call<{ sessions: Record<string, unknown>[] }>("session_list");
    expect(sessions[0]).toMatchObject({ session: "mine", agent: "a", project: "shop", step: 0 });
    expect(sessions[1]).toMatchObject({ status: "waiting", questions: [{ kind: "ask", text: "Shall I?" }] });
    expect(sessions[2]).toMatchObject({ session: "s3", label: "l3", updatedAt: expect.stringMatching(/^2026-01-01T/) });
    expect(String(sessions[4]?.["resumeHint"])).toMatch(/^x{500}…$/);
    const first = await client.call<{ nextCursor: string }>("session_list", { limit: 3 });
    expect(await list({ limit: 3, cursor: first.nextCursor })).toEqual(["s2", "s1"]);
    expect((await client.fail("session_list", { limit: 3, agent: "a", cursor: first.nextCursor })).code).toBe(
      "INVALID_ARGUMENT",
    );
    expect((await client.fail("session_list", { status: "asleep" })).text).toContain("`status`");
  });

  it("session_search finds text in states, labels, hints and messages of any branch", async () => {
    const client = await lab.connect({ write: true, project: "shop" });
    const sp = await lab.open();
    await client.call("session_save", {
      session: "s1",
      state: { todo: ["refund the ORDER", "x"], "a/b": [{ t: "Kiwi" }] },
    });
    await client.call("session_save", { session: "s2", state: {}, label: "before the refund", resumeHint: "Peel it." });
    await sp.session("s3").save({ messages: [{ role: "user", content: "Where is my refund?" }] });
    await sp.session("s4").save({ messages: [] });
    await sp.session("s4").fork(
      { seq: 0 },
      {
        branch: "x",
        state: { messages: [{ role: "user", content: "A pineapple, please." }] },
      },
    );
    await sp
      .session("s5")
      .save({ bytes: new Uint8Array(5000), map: new Map([["k", "walnut"]]), text: "y".repeat(99_000) });
    const search = (text: string, args: object = {}): Promise<Found> =>
      client.call("session_search", { text, ...args });
    const found = await search("refund");
    expect(found.more).toBe(false);
    expect(found.hits.map(({ session }) => session).sort()).toEqual(["s1", "s2", "s3"]);
    expect(found.hits.find(({ session }) => session === "s1")).toMatchObject({
      path: "/todo/0",
      snippet: "refund the ORDER",
      project: "shop",
    });
    expect(await search("kiwi")).toMatchObject({ hits: [{ session: "s1", path: "/a~1b/0/t" }] });
    expect(await search("peel")).toMatchObject({ hits: [{ session: "s2", snippet: "Peel it." }] });
    expect(await search("S4")).toMatchObject({ hits: [{ session: "s4" }] });
    expect(await search("pineapple")).toMatchObject({ hits: [{ session: "s4", branch: "x", path: "/messages/0" }] });
    expect(await search("walnut")).toMatchObject({ hits: [{ session: "s5", path: "/map/$map/k" }] });
    expect(await search("nothing of it")).toEqual({ hits: [], more: false });
    expect((await search("refund", { limit: 2 })).more).toBe(true);
    expect((await search("refund", { project: "current" })).hits).toHaveLength(2);
    expect((await search("refund", { status: "completed" })).hits).toEqual([]);
    expect((await search("refund", { since: Date.now() + 60_000 })).hits).toEqual([]);
  });

  it("run_answer passes on an answer, and the run continues with it", async () => {
    const sp = await lab.open();
    await sp.run(asker, { session: "s", input: undefined });
    const client = await lab.connect();
    const { questions } = await client.call<{ questions: { id: string }[] }>("session_resume", { session: "s" });
    const wrong = await client.fail("run_answer", { session: "s", answer: "yes", question: "q99" });
    expect(wrong.code).toBe("NOT_WAITING");
    expect(wrong.text).toContain(JSON.stringify(questions[0]?.id));
    expect((await client.fail("run_answer", { session: "s" })).text).toContain("`answer`");
    expect(await client.call("run_answer", { session: "s", answer: { ok: true }, question: questions[0]?.id })).toEqual(
      {
        session: "s",
        status: "queued",
        questions: [],
      },
    );
    const again = await client.fail("run_answer", { session: "s", answer: "no" });
    expect(again.code).toBe("NOT_WAITING");
    expect(again.text).toContain("session_list");
    const result = await sp.run(asker, { session: "s", input: undefined });
    expect(result).toMatchObject({ status: "waiting", questions: [{ text: "Really?" }] });
    await client.call("run_answer", { session: "s", answer: null });
    const done = await sp.run(asker, { session: "s", input: undefined });
    expect(done).toMatchObject({ status: "completed", output: [{ ok: true }, null] });
    expect((await client.fail("run_answer", { session: "x", answer: 1 })).code).toBe("SESSION_NOT_FOUND");
  });
});

it("a project is the root of the git working tree, a folder without one, or any name", async () => {
  const folder = await realpath(await makeFolder());
  const inside = join(folder, "repository", "src", "deep");
  await mkdir(inside, { recursive: true });
  expect(resolveProject(inside)).toBe(inside);
  execFileSync("git", ["init", "-q", join(folder, "repository")]);
  expect(resolveProject(inside)).toBe(join(folder, "repository"));
  expect(resolveProject(folder)).toBe(folder);
  expect(resolveProject("my shop")).toBe("my shop");
  await removeFolder(folder);
});
