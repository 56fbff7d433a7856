/** Forks of runs with other results of tools: what if one had answered something else? */
import { describe, expect, it, vi } from "vitest";
import { KINDS, once, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };

function listOf(name: string): { name: string; index: number; text: string }[] {
  return Array.from({ length: 40 }, (_, index) => ({ name, index, text: `${name} ${index} `.repeat(5) }));
}

describe.each(KINDS)("forks with other results on $name", (kind) => {
  const lab = useLab(kind);

  it("forks that are created at the same time each have their own results", async () => {
    const sp = await lab.open();
    const world = new World();
    const agent = once((run) => run.tool({ id: "call", name: "list" }, () => world.do("list", listOf("original"))));
    expect((await sp.run(agent, GO)).output).toStrictEqual(listOf("original"));
    const session = sp.session("s");
    const id = (await session.head())?.id as string;
    const names = ["north", "east", "south", "west"];
    const commit = vi.spyOn(lab.store(), "commit");
    const forks = await Promise.all(names.map((name) => session.fork(id, { results: { call: listOf(name) } })));
    // The commits conflict with each other: that is the case under test.
    expect(commit.mock.settledResults.map(({ type }) => type)).toContain("rejected");
    expect(new Set(forks.map(({ branch }) => branch)).size).toBe(4);
    const other = await lab.open();
    for (const [index, name] of names.entries()) {
      const result = await other.run(agent, { ...GO, branch: forks[index]?.branch as string });
      expect(result.output).toStrictEqual(listOf(name));
    }
    expect((await other.run(agent, GO)).output).toStrictEqual(listOf("original"));
    expect(world.count("list")).toBe(1);
  });
});
