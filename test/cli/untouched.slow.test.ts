/** Reading changes nothing. Writing waits for other processes, but not forever. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { describe, expect, it, type TestContext } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { filesIn } from "../damage/world.js";
import { errorOf, inTerminal } from "./command.js";
import { createPlace, type Place } from "./place.js";

const LOOKS = [
  ["sessions"],
  ["log"],
  ["log", "s", "--graph", "--json"],
  ["show", "s"],
  ["show", "s#0:/n"],
  ["show", "nope"],
  ["diff", "s"],
  ["agents", "ag"],
  ["conversations", "c"],
  ["journal", "s"],
  ["stats"],
  ["verify", "--deep"],
  ["search", "needle"],
  ["doctor"],
];

/** Also executed by another process from its source text, so it uses only its arguments. */
async function fill(sp: Savepoint): Promise<void> {
  const said = (content: string) => ({ role: "user", content });
  for (let n = 0; n < 70; n++) await sp.session("s", { agent: "ag" }).save({ n, messages: [said(`needle ${n}`)] });
  await sp.agents.save({ id: "ag", name: "Agent", state: {} });
  await sp.conversations.create({ id: "c", agent: "ag", messages: [said("needle")] });
}

/** Hashes of files by name. */
const bytesOf = ({ folder }: Place): Record<string, string> =>
  Object.fromEntries(
    [...filesIn(folder)].map(([name, bytes]) => [name, createHash("sha256").update(bytes).digest("hex")]),
  );

describe.concurrent.each(["sqlite", "file"] as const)("reading a store of kind %s", (kind) => {
  it("reading changes no byte", async (test) => {
    const place = await createPlace(test, kind).fill(fill);
    const before = bytesOf(place);
    for (const args of LOOKS) {
      await place.on(args);
      expect(bytesOf(place), args.join(" ")).toEqual(before);
    }
    await inTerminal(["sessions", "--store", place.url]);
    expect(bytesOf(place)).toEqual(before);
  });

  it("reading does not consume the record of a crashed process", async (test) => {
    const place = createPlace(test, kind);
    await crash(place);
    for (const args of LOOKS) await place.on(args);
    const sp = await Savepoint.open(place.url);
    const { clean, processes } = sp.lastShutdown;
    await sp.close();
    expect({ clean, processes: processes.length }).toEqual({ clean: false, processes: 1 });
    // Opening the store for writing reports it.
    const next = await Savepoint.open(place.url);
    expect(next.lastShutdown.clean).toBe(true);
    await next.close();
  });

  it("reading loses nothing that a crashed process has saved", async (test) => {
    const place = createPlace(test, kind);
    await crash(place);
    expect(await place.json(["log", "s"])).toHaveLength(70);
    expect(await place.json(["verify", "--deep"])).toMatchObject({ ok: true });
    expect(await place.json(["log", "s"])).toHaveLength(70);
  });

  it("reading works while a program has the store open and sees what that program has saved", async (test) => {
    const place = createPlace(test, kind);
    const sp = await openFor(test, place);
    await fill(sp);
    for (let n = 0; n < 3; n++) {
      await sp.session("live").save({ n });
      expect(await place.json(["show", "live:/n"])).toBe(n);
    }
    expect(sp.lastShutdown.clean).toBe(true);
  });
});

describe.concurrent("a store that another process is writing to", () => {
  const locked = async (test: TestContext): Promise<[Place, () => void]> => {
    const place = await createPlace(test).fill(fill);
    const database = await openDatabase(place.url.slice("sqlite:".length));
    test.onTestFinished(() => void database.close());
    database.exec("BEGIN IMMEDIATE");
    return [place, () => void database.exec("ROLLBACK")];
  };

  it("verbs that read succeed at once, and verbs that write exit with 11", async (test) => {
    const [place, release] = await locked(test);
    const [listed, shown, pinned] = await Promise.all([
      place.on(["log", "s", "--jsonl"]),
      place.on(["show", "s"]),
      place.on(["pin", "s#1"]),
    ]);
    release();
    expect([listed.code, shown.code]).toEqual([0, 0]);
    expect(pinned).toMatchObject({ code: 11, stdout: "" });
    expect(pinned.stderr).toMatch(/^error .*another process/);
    expect((await place.on(["pin", "s#1"])).code).toBe(0);
  });

  it("the failure is reported in one line", async (test) => {
    const [place] = await locked(test);
    expect(errorOf(await place.on(["label", "s#1", "x", "--json"])).code).toBe("BUSY");
  });

  it("search succeeds at once, because it builds its index in memory", async (test) => {
    const [place] = await locked(test);
    expect((await place.on(["search", "needle", "--json"])).code).toBe(0);
  });
});

async function openFor({ onTestFinished }: TestContext, place: Place): Promise<Savepoint> {
  const sp = await Savepoint.open(place.url, { durability: "process" });
  onTestFinished(() => sp.close());
  return sp;
}

/** Saves like {@link fill} and dies. */
async function crash(place: Place): Promise<void> {
  const library = new URL("../../dist/index.js", import.meta.url).href;
  const child = spawn(
    process.execPath,
    [
      "--input-type=module",
      "-e",
      `const { Savepoint } = await import(${JSON.stringify(library)});
      const sp = await Savepoint.open(${JSON.stringify(place.url)});
      await (${fill.toString()})(sp);
      process.kill(process.pid, "SIGKILL");`,
    ],
    { stdio: ["ignore", "inherit", "inherit"] },
  );
  await new Promise((resolve) => child.on("close", resolve));
}
