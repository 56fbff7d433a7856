/** Colours and narrow terminals. */
import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { inTerminal, run, spawnTerminal, withLines } from "./command.js";
import { useFilledPlace } from "./place.js";

const COLOURED = "\u001b[";
const LABEL = "a label that is a good deal longer than a narrow terminal is wide";

const LETTERS = new Intl.Segmenter("en", { granularity: "grapheme" });

/** The width of a line: two columns for each Chinese character and each emoji. */
function columnsOf(line: string): number {
  const letters = [...LETTERS.segment(stripVTControlCharacters(line))];
  return letters.reduce(
    (sum, { segment }) => sum + (/^[\p{Script=Han}\p{Emoji_Presentation}]/u.test(segment) ? 2 : 1),
    0,
  );
}

describe.concurrent("colours", () => {
  const place = useFilledPlace((sp) =>
    sp.session("s").save({ n: 1 }, { label: "one", status: "failed", reason: "why" }),
  );
  const log = (): string[] => ["log", "s", "--store", place().url];

  it("a terminal gets colours", async () => {
    const { screen, code } = await spawnTerminal(log()).ended;
    expect(code).toBe(0);
    expect(screen).toContain(COLOURED);
    expect(stripVTControlCharacters(screen)).toContain('"one"');
  });

  it("other output gets no colours", async () => {
    for (const args of [log(), ["sessions", "--store", place().url], ["show", "s", "--store", place().url]]) {
      expect((await run(args)).stdout).not.toContain(COLOURED);
    }
  });

  it("NO_COLOR, --no-color and TERM=dumb disable colours on a terminal", async () => {
    expect((await inTerminal(log(), { env: { NO_COLOR: "1" } })).screen).not.toContain(COLOURED);
    expect((await inTerminal([...log(), "--no-color"])).screen).not.toContain(COLOURED);
    expect((await inTerminal(log(), { env: { TERM: "dumb" } })).screen).not.toContain(COLOURED);
  });

  it("an empty NO_COLOR does not disable colours", async () => {
    expect((await inTerminal(log(), { env: { NO_COLOR: "" } })).screen).toContain(COLOURED);
  });

  it("--color enables colours anywhere, before and after the verb and despite NO_COLOR", async () => {
    expect((await run([...log(), "--color"])).stdout).toContain(COLOURED);
    expect((await run(["--color", ...log()], { env: { NO_COLOR: "1" } })).stdout).toContain(COLOURED);
  });

  it("JSON never contains colours, not even on a terminal", async () => {
    expect((await run([...log(), "--json", "--color"])).stdout).not.toContain(COLOURED);
    expect((await inTerminal([...log(), "--json"])).screen).not.toContain(COLOURED);
  });

  it("colours do not change the text", async () => {
    const [plain, coloured] = await Promise.all([
      run(["show", "s", "--store", place().url]),
      run(["show", "s", "--color", "--store", place().url]),
    ]);
    expect(stripVTControlCharacters(coloured.stdout)).toBe(plain.stdout);
  });

  it("an error is coloured on a terminal only", async () => {
    const args = ["log", "nope", "--store", place().url];
    expect((await run(args)).stderr).not.toContain(COLOURED);
    const { screen, code } = await inTerminal(args);
    expect(code).toBe(4);
    expect(screen).toContain(COLOURED);
  });
});

describe.concurrent("a narrow terminal", () => {
  const place = useFilledPlace(async (sp) => {
    await sp.session("s").save({ text: "x".repeat(500) }, { label: LABEL });
    await sp.session("s").save({ text: "会".repeat(500) }, { label: `会话 👩‍👩‍👧 ${LABEL}` });
    await sp.conversations.create({ id: "c", title: LABEL.slice(0, 49), messages: [{ role: "user", content: LABEL }] });
  });
  const widths = (lines: readonly string[]): number[] => lines.map(columnsOf);

  it.each([["sessions"], ["conversations"], ["search", "narrow"]])(
    "%s truncates what does not fit",
    async (...args) => {
      const { lines, code } = await inTerminal([...args, "--store", place().url], { columns: 60 });
      expect(code).toBe(0);
      expect(Math.max(...widths(lines))).toBeLessThanOrEqual(60);
      expect(lines.join("\n")).toContain("…");
    },
  );

  it("log truncates what does not fit", async () => {
    const { lines } = await inTerminal(["log", "s", "--no-color", "--store", place().url], { columns: 50 });
    expect(Math.max(...widths(lines))).toBeLessThanOrEqual(50);
    expect(lines.filter((line) => line.endsWith("…"))).toHaveLength(2);
  });

  it("log truncates coloured lines that do not fit", async () => {
    const { lines } = withLines(await spawnTerminal(["log", "s", "--store", place().url], { columns: 50 }).ended);
    expect(Math.max(...widths(lines))).toBeLessThanOrEqual(50);
  });

  it("diff truncates values that do not fit", async () => {
    const { lines } = await inTerminal(["diff", "s", "--store", place().url], { columns: 40 });
    expect(Math.max(...widths(lines))).toBeLessThanOrEqual(40);
  });

  it("JSON is never truncated", async () => {
    const { screen } = await inTerminal(["log", "s", "--jsonl", "--store", place().url], { columns: 20 });
    expect(screen).toContain(LABEL);
  });

  it("a terminal with a single column works", async () => {
    for (const verb of ["sessions", "log"]) {
      expect((await inTerminal([verb, "--store", place().url], { columns: 1 })).code).toBe(0);
    }
  });

  it("a terminal without a known width truncates nothing", async () => {
    const args = ["log", "s", "--no-color", "--store", place().url];
    const { screen } = await spawnTerminal(args, { before: "stty cols 0 rows 0" }).ended;
    expect(screen).toContain(LABEL);
  });
});

describe.concurrent("help in a terminal", () => {
  it("help is printed without control characters and exits with 0", async () => {
    const { screen, code } = await inTerminal(["--help"], { columns: 40 });
    expect(code).toBe(0);
    expect(screen).toContain("savepoint <verb>");
  });
});
