/** Help and usage errors. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { VERBS } from "../../src/cli/verbs/index.js";
import { errorOf, linesOf, run } from "./command.js";
import { createPlace, useFilledPlace } from "./place.js";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

const page = readFileSync(new URL("../../docs/cli.md", import.meta.url), "utf8");

const OF_ALL = ["--store", "-s", "--json", "--jsonl", "--color", "--no-color", "--quiet", "-q", "--yes", "-y"];

describe.concurrent("help", () => {
  it.each([[], ["--help"], ["-h"], ["help"]])("%s lists every verb", async (...args) => {
    const { stdout, stderr, code } = await run(args);
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    for (const { name, summary } of VERBS) expect(stdout).toMatch(new RegExp(`^  ${name} +${summary}$`, "m"));
    expect(stdout).toContain("order-88@what-if");
    expect(stdout).toContain("--store <url>");
  });

  it.each(VERBS.map(({ name }) => name))(
    "help for %s contains its usage and examples that can be typed",
    async (name) => {
      const { stdout, stderr, code } = await run([name, "--help"]);
      expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
      expect(stdout).toMatch(new RegExp(`^Usage: savepoint ${name}`));
      const [, examples = ""] = stdout.split("Examples:\n");
      expect(examples).toMatch(new RegExp(`^  .*savepoint ${name}\\b`, "m"));
      expect(examples).toContain("# ");
      for (const line of examples.split("\n")) expect(line.length, line).toBeLessThanOrEqual(100);
      for (const [option] of examples.replaceAll(/[|#].*|"[^"]*"/g, "").matchAll(/(?<= )--?[a-z][a-z-]*/g)) {
        expect(`${stdout.split("Examples:")[0]} ${OF_ALL.join(" ")}`, option).toMatch(
          new RegExp(`(^|[ ,])${option}\\b`, "m"),
        );
      }
    },
  );

  it("both ways to ask for help of a verb print the same", async () => {
    const [one, other] = await Promise.all([run(["log", "--help"]), run(["help", "log"])]);
    expect(other).toEqual(one);
  });

  it("docs/cli.md contains the help of every verb as it is printed, and of nothing else", async () => {
    const sections = page.slice(page.indexOf("<!-- verbs -->")).matchAll(/^### (.+)\n\n```text\n([^]+?)```$/gm);
    const shown = [...sections].map(([, typed = "", text = ""]) => [typed, text] as const);
    expect(shown.map(([typed]) => typed)).toEqual(["savepoint", ...VERBS.map(({ name }) => `savepoint ${name}`)]);
    expect(shown[0]?.[1]).toBe((await run(["--help"])).stdout);
    expect(Object.fromEntries(shown)["savepoint show"]).toBe((await run(["show", "--help"])).stdout);
  });

  it("help needs no store and creates none", async (test) => {
    const { folder } = createPlace(test);
    expect((await run(["show", "--help"], { cwd: folder, env: { SAVEPOINT_URL: "bad" } })).code).toBe(0);
  });
});

describe("the version", () => {
  it.each(["--version", "-V"])("%s prints the version and nothing else", async (option) => {
    expect(await run([option])).toEqual({ stdout: `${version}\n`, stderr: "", code: 0 });
  });
});

describe.concurrent("invalid input", () => {
  const place = useFilledPlace((sp) => sp.session("order-88").save({ n: 1 }));

  it.each([
    [
      "a positional value",
      ["answer", "s", "yes"],
      'Usage: savepoint answer [options] [session]. "savepoint answer --help"',
    ],
    ["a string without quotes", ["answer", "s", "--value", "yes"], `A string needs quotes: '"yes"'.`],
    ["half an object", ["answer", "s", "--value", "{"], "Expected JSON."],
  ])("%s is rejected with advice", async (_, args, advice) => {
    expect((await place().on(args)).stderr).toContain(advice);
  });

  it.each([
    ["an unknown verb", ["bogus"]],
    ["an unknown option", ["sessions", "--bogus"]],
    ["an unknown option of all", ["--bogus"]],
    ["an unknown short option", ["sessions", "-Z"]],
    ["a missing argument of show", ["show"]],
    ["a missing argument of diff", ["diff"]],
    ["a missing argument of search", ["search"]],
    ["a missing argument of journal", ["journal"]],
    ["too many arguments", ["show", "a", "b"]],
    ["a missing value", ["sessions", "--agent"]],
    ["a missing store", ["sessions", "--store"]],
    ["a count that is none", ["sessions", "--limit", "many"]],
    ["a negative count", ["sessions", "--limit=-1"]],
    ["half a count", ["log", "-n", "1.5"]],
    ["a count beyond counting", ["log", "-n", "99999999999999999999"]],
    ["an empty count", ["log", "-n", ""]],
    ["a status that there is not", ["sessions", "--status", "sleeping"]],
    ["a role that there is not", ["search", "x", "--role", "boss"]],
    ["a time that is none", ["conversations", "--since", "yesterday-ish"]],
    ["an empty session", ["log", ""]],
    ["a session with a control character", ["log", "a\u0007b"]],
    ["an id that is too long", ["journal", "x".repeat(1100)]],
  ])("%s exits with 2 and prints no data", async (_, args) => {
    const { stdout, stderr, code } = await place().on(args);
    expect({ stdout, code }, stderr).toEqual({ stdout: "", code: 2 });
    expect(stderr).toMatch(/^error \S/);
    expect(stderr).not.toContain("    at ");
  });

  it("an age without a unit is rejected", async () => {
    expect((await place().on(["conversations", "--since", "7"])).code).toBe(2);
  });

  it.each([
    ["lgo", "log"],
    ["session", "sessions"],
    ["serach", "search"],
    ["joural", "journal"],
  ])("the unknown verb %s is reported with the suggestion %s", async (typed, meant) => {
    const { stderr, code } = await run([typed]);
    expect(code).toBe(2);
    expect(stderr).toContain(typed);
    expect(stderr).toMatch(new RegExp(`Did you mean "?${meant}`, "i"));
  });

  it("help for an unknown verb names that verb", async () => {
    const { stdout, stderr, code } = await run(["help", "bogus"]);
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
    expect(stderr).toContain("bogus");
  });

  it("an unknown option is reported with a suggestion", async () => {
    const { stderr, code } = await place().on(["log", "--grap"]);
    expect(code).toBe(2);
    expect(stderr).toContain("Did you mean --graph?");
  });

  it("a suggestion is printed without marks for line breaks", async () => {
    expect((await place().on(["log", "--grap"])).stderr).not.toContain("⏎");
  });

  it.each([
    ["log", "order-8"],
    ["log", "order88"],
    ["show", "ordr-88"],
    ["show", "oder-88#1"],
    ["diff", "orrder-88:/n"],
    ["journal", "order-89"],
  ])("%s %s is not found, and a similar session is suggested", async (verb, typed) => {
    const { stdout, stderr, code } = await place().on([verb, typed]);
    expect({ stdout, code }).toEqual({ stdout: "", code: 4 });
    expect(stderr).toContain('Did you mean "order-88"?');
    expect(linesOf(stderr)).toHaveLength(1);
  });

  it("no session is suggested if none is similar", async () => {
    const { stderr, code } = await place().on(["log", "something else altogether"]);
    expect(code).toBe(4);
    expect(stderr).not.toContain("Did you mean");
    expect(stderr).toContain("savepoint sessions");
  });

  it("the error for a missing checkpoint of an existing session says how to list its checkpoints", async () => {
    const { stderr, code } = await place().on(["show", "order-88#7"]);
    expect(code).toBe(4);
    expect(stderr).toContain("savepoint log order-88 --all");
  });

  it("an argument after -- is not an option", async () => {
    const { stderr, code } = await run(["log", "--json", "--store", place().url, "--", "--graph"]);
    expect(code).toBe(4);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: "NOT_FOUND" } });
  });

  it("usage errors are printed as JSON with --json anywhere on the line", async () => {
    for (const args of [
      ["bogus", "--json"],
      ["--json", "sessions", "--bogus"],
      ["log", "-n", "x", "--jsonl"],
    ]) {
      const ended = await place().on(args);
      expect(ended.code).toBe(2);
      expect(errorOf(ended).code).toBe("USAGE");
    }
  });

  it("an error contains its details for programs", async () => {
    const ended = await place().on(["show", "nope", "--jsonl"]);
    expect(ended.code).toBe(4);
    expect(errorOf(ended)).toEqual({ code: "NOT_FOUND", message: expect.stringContaining("nope"), details: {} });
  });
});
