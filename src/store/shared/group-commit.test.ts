import { describe, expect, it } from "vitest";
import { SavepointError } from "../../errors.js";
import type { Commit, CommitResult } from "../contract/index.js";
import { GroupCommit } from "./group-commit.js";

/** A writer that keeps what it was asked to write: `log` has one list of keys for each group or synchronous commit. */
function makeWriter(options: { now: boolean }) {
  const log: { lane: "group" | "now"; keys: string[] }[] = [];
  const keyOf = (commit: Commit): string => commit.puts?.[0]?.key ?? "";
  const outcomeOf = (commit: Commit): CommitResult | SavepointError =>
    keyOf(commit).startsWith("bad") ? new SavepointError("CONFLICT", keyOf(commit)) : { firsts: [log.length] };
  let isPossible = true;
  const apply = async (commits: readonly Commit[]) => {
    log.push({ lane: "group", keys: commits.map(keyOf) });
    return commits.map(outcomeOf);
  };
  const applyNow = (commit: Commit): CommitResult | undefined => {
    if (!isPossible) return undefined;
    log.push({ lane: "now", keys: [keyOf(commit)] });
    const outcome = outcomeOf(commit);
    if (outcome instanceof SavepointError) throw outcome;
    return outcome;
  };
  const queue = options.now ? new GroupCommit(apply, applyNow) : new GroupCommit(apply);
  return {
    log,
    commit: (key: string) => queue.commit({ puts: [{ key, value: "" }] }),
    idle: () => queue.idle(),
    forbidNow: () => (isPossible = false),
  };
}

/** Makes commits one after another until the writer treats the caller as a lone one. */
async function warmUp(writer: ReturnType<typeof makeWriter>): Promise<void> {
  do await writer.commit("warm");
  while (writer.log.at(-1)?.lane !== "now");
  writer.log.length = 0;
}

describe("group commit", () => {
  it("writes concurrent commits in one group, in order", async () => {
    const writer = makeWriter({ now: true });
    await Promise.all(["a", "b", "c"].map(writer.commit));
    expect(writer.log).toEqual([{ lane: "group", keys: ["a", "b", "c"] }]);
  });

  it("writes the commits of a lone caller synchronously", async () => {
    const writer = makeWriter({ now: true });
    await warmUp(writer);
    const result = writer.commit("a");
    expect(writer.log).toEqual([{ lane: "now", keys: ["a"] }]);
    expect(await result).toEqual({ firsts: [1] });
  });

  it("writes all commits through the queue if the store cannot write synchronously, in general or at the moment", async () => {
    const plain = makeWriter({ now: false });
    for (const key of ["a", "b", "c"]) await plain.commit(key);
    expect(plain.log.map(({ lane }) => lane)).toEqual(["group", "group", "group"]);
    const writer = makeWriter({ now: true });
    await warmUp(writer);
    writer.forbidNow();
    await writer.commit("a");
    expect(writer.log).toEqual([{ lane: "group", keys: ["a"] }]);
  });

  it("groups the commits of a second caller that commits before the first one continues", async () => {
    const writer = makeWriter({ now: true });
    await warmUp(writer);
    await Promise.all(["a", "b", "c"].map(writer.commit));
    expect(writer.log).toEqual([
      { lane: "now", keys: ["a"] },
      { lane: "group", keys: ["b", "c"] },
    ]);
  });

  it("never writes a commit before one that waits in the queue", async () => {
    const writer = makeWriter({ now: true });
    await warmUp(writer);
    const written: string[] = [];
    const callers = ["a", "b", "c", "d"].map(async (name) => {
      for (let index = 0; index < 200; index++) {
        await writer.commit(`${name}${index}`);
        written.push(`${name}${index}`);
      }
    });
    await Promise.all(callers);
    expect(writer.log.flatMap(({ keys }) => keys)).toEqual(written);
  });

  it("gives the event loop its turns while a lone caller commits", async () => {
    const writer = makeWriter({ now: true });
    await warmUp(writer);
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    try {
      for (const end = performance.now() + 1000; turns < 5 && performance.now() < end;) await writer.commit("a");
      expect(turns).toBe(5);
    } finally {
      clearInterval(timer);
    }
  });

  it("rejects a failed commit alone, in both lanes", async () => {
    const writer = makeWriter({ now: true });
    const outcomes = await Promise.allSettled(["a", "bad", "c"].map(writer.commit));
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    await warmUp(writer);
    await expect(writer.commit("bad")).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(writer.commit("d")).resolves.toBeDefined();
  });
});
