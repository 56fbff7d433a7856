/** A programming error in the function of an effect ends the run at once, like an error of the step's own code. */
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { defineAgent, type RunEvent } from "../../src/index.js";
import { KINDS, once, until, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };
const missing = undefined as unknown as { price: number };

const OPEN = "(";

const BUGS: { what: string; name: string; fail: () => unknown }[] = [
  { what: "a property of undefined", name: "TypeError", fail: () => missing.price },
  {
    what: "an unknown name",
    name: "ReferenceError",
    fail: () => Promise.reject(new ReferenceError("unknownName is not defined")),
  },
  { what: "an invalid expression", name: "SyntaxError", fail: () => new RegExp(OPEN) },
  { what: "a number out of range", name: "RangeError", fail: () => "x".repeat(-1) },
];

/** Throws the error with which the fetch of a host fails. */
function failFetch(code: string): never {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error(`getaddrinfo ${code} host`), { code }) });
}

describe.each(KINDS)("a programming error in an effect, on $name", (kind) => {
  const lab = useLab(kind);

  it.each(BUGS)("fails the run at once: $what", async ({ name, fail }) => {
    const world = new World();
    const events: RunEvent[] = [];
    const sp = await lab.open({ on: { run: (event) => void events.push(event) } });
    const agent = once(async (run) => {
      await run.tool({ id: "1", name: "price" }, () => {
        world.log.push("price");
        return fail() as never;
      });
    }, 3);
    const result = await sp.run(agent, GO);
    expect(result).toMatchObject({ status: "failed", error: { name }, needsResume: false });
    expect(result.error?.stack).toContain("effect-bugs.test.ts");
    expect(world.log).toEqual(["price"]);
    expect(events.filter(({ type }) => type === "retry")).toEqual([]);
    expect(await sp.journal("s").all()).toMatchObject([{ name: "price", outcome: "again", error: { name } }]);
  });

  it("fails the run if the step throws it as the cause of another error", async () => {
    const agent = once(async (run) => {
      await run.llm(() => missing.price).catch((cause: unknown) => Promise.reject(new Error("no reply", { cause })));
    }, 3);
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ status: "failed", reason: "Error: no reply", needsResume: false });
  });

  it("has its own stack and those of its causes when it ends the run", async () => {
    const agent = once(async (run) => {
      await run.llm(() => {
        throw new TypeError("no price", { cause: new RangeError("no number") });
      });
    }, 3);
    const { error } = await (await lab.open()).run(agent, GO);
    const [own, cause] = error?.stack?.split("caused by: ") ?? [];
    expect(own).toContain("effect-bugs.test.ts");
    expect(cause).toMatch(/^RangeError: no number\n +at .*effect-bugs\.test\.ts/s);
  });

  it("is executed again when the fixed code runs the session, and earlier tools are not", async () => {
    const world = new World();
    let broken = true;
    const agent = once(async (run) => {
      await run.tool({ id: "1", name: "pay" }, () => world.do("pay"));
      return run.tool({ id: "2", name: "price" }, () => world.do("price", broken ? missing.price : 7));
    });
    await (await lab.open()).run(agent, GO);
    lab.crash();
    broken = false;
    const sp = await lab.open();
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: 7 });
    expect(world.count("pay")).toBe(1);
  });

  it("of several parallel tools needs only one more run after the fix", async () => {
    let broken = true;
    const sp = await lab.open();
    const agent = once(async (run) =>
      Promise.all(["1", "2", "3"].map((id) => run.tool({ id, name: "price" }, () => (broken ? missing.price : 7)))),
    );
    expect(await sp.run(agent, GO)).toMatchObject({ status: "failed" });
    broken = false;
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: [7, 7, 7] });
  });

  it("can be caught by the step", async () => {
    const agent = once(async (run) => run.tool({ id: "1", name: "price" }, () => missing.price).catch(() => "caught"));
    expect(await (await lab.open()).run(agent, GO)).toMatchObject({ status: "completed", output: "caught" });
  });
});

describe.each(KINDS)("an error of an effect that only looks like a programming error, on $name", (kind) => {
  const lab = useLab(kind);

  it.each([
    ["a host that is not found", () => failFetch("ENOTFOUND")],
    ["a reply that is no JSON", () => JSON.parse("<html>") as unknown],
    ["an error with its own name", () => Promise.reject(Object.assign(new TypeError("closed"), { name: "BankError" }))],
  ])("is retried: %s", async (_, fail) => {
    const world = new World();
    const agent = once(async (run) => {
      await run.effect("call", () => {
        world.log.push("call");
        return fail();
      });
    }, 2);
    expect(await (await lab.open()).run(agent, GO)).toMatchObject({ status: "halted", needsResume: true });
    expect(world.count("call")).toBe(2);
  });

  it("is retried: a refused connection", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await until(() => server.listening, "the server to listen");
    const { port } = server.address() as AddressInfo;
    await new Promise((closed) => server.close(closed));
    let calls = 0;
    const agent = defineAgent({
      name: "a",
      retry: { attempts: 2, delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        await run.effect("fetch", async () => {
          calls++;
          await fetch(`http://127.0.0.1:${port}/`);
        });
      },
    });
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ status: "halted", needsResume: true, error: { name: "TypeError" } });
    expect(calls).toBe(2);
  });
});
