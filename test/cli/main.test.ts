/** Concurrent commands in one process, and what the process of one command loads and leaves behind. */
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { processIo } from "../../src/cli/io.js";
import { inTerminal, linesOf, run, spawnProgram, start } from "./command.js";
import { createPlace, Place } from "./place.js";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

describe("commands in one process", () => {
  it("commands run side by side, each with its own store, folder, format, colours and exit code", async (test) => {
    const places = await Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        const place = createPlace(test);
        mkdirSync(place.path(".savepoint"));
        return place.fill((sp) => sp.session(`s${n}`).save({ n }));
      }),
    );
    await Promise.all(
      places.map(async (place, n) => {
        const cwd = place.folder;
        const [json, named, coloured, plain, missing, none] = await Promise.all([
          place.run(["sessions", "--store", "sqlite:./s.db", "--jsonl"]),
          run(["sessions", "--jsonl"], { cwd, env: { SAVEPOINT_URL: "sqlite:./s.db" } }),
          inTerminal(["log", "--store", place.url], { cwd }),
          inTerminal(["log", "--store", place.url], { cwd, env: { NO_COLOR: "1" } }),
          place.on(["show", `s${n + 1}`]),
          place.run(["sessions"]),
        ]);
        expect(linesOf(json.stdout).map((line) => (JSON.parse(line) as { id: string }).id)).toEqual([`s${n}`]);
        expect(named).toEqual(json);
        expect(coloured.screen).toContain("\u001b[");
        expect(plain.screen).not.toContain("\u001b[");
        expect(missing).toMatchObject({ code: 4, stdout: "" });
        expect(none).toMatchObject({ code: 10, stdout: "" });
      }),
    );
  });

  it("commands are interrupted one by one, and a second signal ends a command at once", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("s").save({}));
    const [first, second] = [place.startOn(["watch", "s"]), place.startOn(["watch", "s"])];
    await Promise.all([first.seen("\n"), second.seen("\n")]);
    first.interrupt();
    expect((await first.ended).code).toBe(130);
    second.interrupt();
    second.interrupt();
    expect((await second.ended).code).toBe(130);
  });

  it("a command closes the store before it ends, also if it fails or is interrupted", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("s").save({ n: 1 }));
    await place.json(["label", "s#0", "x"]);
    await place.fail(["label", "s#7", "x"], 4);
    const watching = place.startOn(["watch", "s"]);
    await watching.seen("\n");
    watching.interrupt();
    await watching.ended;
    // A process that has not closed the store is listed here.
    expect((await place.open()).lastShutdown).toMatchObject({ clean: true, processes: [] });
  });

  it("a command resolves relative paths of states, bundles, backups and stores against its own folder", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("s").save({ n: 1 }));
    place.file("state.json", '{"n":2}');
    await place.json(["fork", "s#0", "side", "--state", "state.json"]);
    expect(await place.json(["export", "-o", "s.savepoint"])).toMatchObject({ path: "s.savepoint" });
    expect(await place.json(["verify", "--bundle", "./s.savepoint"])).toMatchObject({ ok: true });
    const { path } = await place.json<{ path: string }>(["backup", "--to", "backups"]);
    expect(readdirSync(place.path("backups")).map((name) => `backups/${name}`)).toEqual([path]);
    expect(await place.json(["repair", "--from", "backups"])).toMatchObject({ ok: true });
    expect(await place.json(["stats", "--store", "sqlite:./s.db"])).toMatchObject({ store: place.url });
  });
});

describe("the process of a command", () => {
  it("a command listens to signals only while it runs", () => {
    const counts = (): number[] => SIGNALS.map((signal) => process.listenerCount(signal));
    const before = counts();
    const stop = processIo().onSignal(() => {});
    expect(counts()).toEqual(before.map((count) => count + 1));
    stop();
    expect(counts()).toEqual(before);
  });

  it("help loads neither the library nor the prompts", async () => {
    const place = new Place();
    try {
      // Node writes the URLs of all loaded scripts to this folder.
      const env = { NODE_V8_COVERAGE: place.path("coverage") };
      const { code, stdout } = await spawnProgram(["--help"], { stdin: "", env }).ended;
      expect(code).toBe(0);
      expect(stdout).toBe((await start(["--help"]).ended).stdout);
      const [report = ""] = readdirSync(place.path("coverage"));
      const { result } = JSON.parse(readFileSync(place.path("coverage", report), "utf8")) as {
        result: { url: string }[];
      };
      const names = result.map(({ url }) => url).filter((url) => url.includes("/dist/"));
      expect(names.map((url) => url.replace(/.*\/|-[\w-]{8}\.js$|\.js$/g, "")).sort()).toEqual(["light", "savepoint"]);
    } finally {
      await place.end();
    }
  });
});
