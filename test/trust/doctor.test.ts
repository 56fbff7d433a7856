/** `savepoint doctor` reports what exposes a store to other users. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createPlace, type Fields, type Place, usePlace } from "../cli/place.js";

const tool = usePlace();

async function findingsOf(place: Place, args: readonly string[] = []): Promise<Fields[]> {
  const { stdout } = await place.run(["doctor", "--json", ...args]);
  return JSON.parse(stdout) as Fields[];
}

const find = (findings: readonly Fields[], check: string): Fields | undefined =>
  findings.find((finding) => finding["check"] === check);

describe("doctor", () => {
  it("reports files that other users can read or write, with a command that fixes them", async () => {
    await tool().leave((sp) => sp.session("s").save(1));
    const path = tool().path("s.db");
    for (const [mode, state] of [
      [0o644, "note"],
      [0o660, "note"],
      [0o666, "problem"],
    ] as const) {
      chmodSync(path, mode);
      const found = find(await findingsOf(tool(), ["--store", tool().url]), "access");
      expect(found).toMatchObject({ state, detail: expect.stringContaining(path) });
      const [, command = ""] = /Run: (chmod .*)$/.exec(String(found?.["advice"])) ?? [];
      expect(spawnSync("sh", ["-c", command]).status, command).toBe(0);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      expect(find(await findingsOf(tool(), ["--store", tool().url]), "access")).toMatchObject({ state: "ok" });
    }
  });

  it("reports the folder of a file store that other users can enter", async (test) => {
    const place = createPlace(test, "file");
    await place.leave((sp) => sp.session("s").save(1));
    chmodSync(place.path("s"), 0o755);
    const found = find(await findingsOf(place, ["--store", place.url]), "access");
    expect(found).toMatchObject({ state: "note", advice: expect.stringContaining("chmod -R go-rwx") });
    chmodSync(place.path("s"), 0o700);
    expect(find(await findingsOf(place, ["--store", place.url]), "access")).toMatchObject({ state: "ok" });
  });

  it("reports a .savepoint folder that git would add, with a command that fixes it", async () => {
    expect((await tool().run(["init"])).code).toBe(0);
    expect(find(await findingsOf(tool()), "git")).toBeUndefined();
    const ignore = join(tool().path(".savepoint"), ".gitignore");
    expect(spawnSync("rm", [ignore]).status).toBe(0);
    const found = find(await findingsOf(tool()), "git");
    const [, command = ""] = /Run: (.*)$/.exec(String(found?.["advice"])) ?? [];
    expect(spawnSync("sh", ["-c", command]).status, command).toBe(0);
    expect(existsSync(ignore)).toBe(true);
    expect(find(await findingsOf(tool()), "git")).toBeUndefined();
  });

  it.each([
    ["postgres://u@db.invalid/x", true],
    ["postgres://u@db.invalid/x?sslmode=disable", true],
    ["postgres://u@db.invalid/x?sslmode=prefer", true],
    ["postgres://u@db.invalid/x?sslmode=require", false],
    ["postgres://u@db.invalid/x?sslmode=verify-full", false],
    ["postgres://u@localhost:1/x", false],
    ["postgres://u@127.0.0.1:1/x", false],
    ["postgres://u@[::1]:1/x", false],
    ["postgres://u@%2Fnowhere/x", false],
  ])("reports a connection to another machine without TLS: %s", async (url, reported) => {
    const found = find(await findingsOf(tool(), ["--store", url]), "tls");
    expect(found?.["state"]).toBe(reported ? "problem" : undefined);
  });

  it("reports a password in the arguments, which other users can list, without printing it", async () => {
    const { stdout } = await tool().run(["doctor", "--json", "--store", "postgres://u:hunter2@localhost:1/x"]);
    expect(find(JSON.parse(stdout) as Fields[], "password")).toMatchObject({ state: "problem" });
    expect(stdout).not.toContain("hunter2");
    const env = { SAVEPOINT_URL: "postgres://u:hunter2@localhost:1/x" };
    expect((await tool().run(["doctor", "--json"], { env })).stdout).not.toMatch(/"password"|hunter2/);
  });
});
