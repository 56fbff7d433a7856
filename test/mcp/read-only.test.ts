/** Without `write`, nothing can be changed, and no writing tool is listed. */
import { describe, expect, it } from "vitest";
import { GENERATIONS } from "./clients.js";
import { useLab } from "./lab.js";

describe.each(GENERATIONS)("a read-only server, for $name", (generation) => {
  const lab = useLab(generation);

  it("no writing tool is listed, and calling one explains how to enable it", async () => {
    const writing = (await (await lab.connect({ write: true })).tools()).filter(
      ({ annotations }) => !annotations?.["readOnlyHint"],
    );
    expect(writing).toHaveLength(10);
    const client = await lab.connect({});
    const offered = (await client.tools()).map(({ name }) => name);
    expect(offered).toHaveLength(11);
    for (const { name } of writing) {
      expect(offered).not.toContain(name);
      const { code, text } = await client.fail(name, {
        id: "x",
        session: "x",
        state: 1,
        agent: "x",
        checkpoint: "x",
        answer: 1,
      });
      expect(code).toBe("READ_ONLY");
      expect(text).toContain("--write");
    }
    const sp = await lab.open();
    expect(await sp.stats()).toMatchObject({ agents: 0, conversations: 0, sessions: 0, checkpoints: 0 });
  });

  it("the server reads what other processes save", async () => {
    const sp = await lab.open();
    await sp.session("s").save({ n: 1 });
    const client = await lab.connect({});
    expect((await client.call("session_resume", { session: "s" })).state).toEqual({ n: 1 });
    await sp.session("s").save({ n: 2 });
    expect((await client.call("session_resume", { session: "s" })).state).toEqual({ n: 2 });
  });

  it("an unknown tool is rejected", async () => {
    const client = await lab.connect();
    await expect(client.raw("agent_explode")).rejects.toThrow("agent_explode");
  });
});
