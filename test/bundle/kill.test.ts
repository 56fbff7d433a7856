/** A process that is killed while it imports: the next import resumes, and everything is stored once. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { agentOf, fillSession, fillStore, sessionOf, wholeOf } from "./whole.js";
import { runs } from "../support/runs.js";

const program = fileURLToPath(new URL("./import-child.mjs", import.meta.url));

interface Ended {
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Imports in a process of its own, which is killed when it has read so many bytes. */
function importAndKill(url: string, path: string, size: number, killAt: number): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [program, url, path, String(size), String(killAt)], { stdio: "pipe" });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      if (stdout.includes("stopped")) child.kill("SIGKILL");
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.on("close", (_, signal) => resolve({ signal, stdout, stderr }));
  });
}

describe.each(["sqlite:", "file:"])("a process that imports into %s", (scheme) => {
  let folder: string;
  beforeEach(async () => void (folder = await makeFolder()));
  afterEach(() => removeFolder(folder));

  it("can be killed at any point, and the next import completes the bundle", async () => {
    const source = await Savepoint.open("memory:");
    await fillStore(source);
    await fillSession(source, "t");
    const path = join(folder, "bundle");
    const { bytes } = await source.export().save(path);
    const url = `${scheme}${join(folder, "store")}`;
    const own = await Savepoint.open(url, { durability: "process" });
    await fillSession(own, "own");
    const before = await sessionOf(own, "own");
    await own.close();
    const KILLS = runs(7, 2);
    for (let kill = 1; kill <= KILLS; kill++) {
      const at = Math.floor((bytes * kill) / (KILLS + 1));
      const ended = await importAndKill(url, path, Math.ceil(bytes / 60), at);
      expect(ended).toMatchObject({ signal: "SIGKILL", stderr: "" });
      // Everything that is visible is intact.
      const seen = await Savepoint.open(url, { durability: "process" });
      const whole = await wholeOf(seen);
      for (const [id, session] of Object.entries(whole["sessions"] as Record<string, unknown>)) {
        assert.deepEqual(session, id === "own" ? before : await sessionOf(source, id));
      }
      await seen.close();
    }
    const sp = await Savepoint.open(url, { durability: "process" });
    await sp.import(path);
    assert.deepEqual(await agentOf(sp, "a"), await agentOf(source, "a"));
    for (const id of ["s", "t", "cleared", "a-session"]) {
      assert.deepEqual(await sessionOf(sp, id), await sessionOf(source, id));
    }
    assert.deepEqual(await sessionOf(sp, "own"), before);
    expect(await sp.sessions.list().all()).toHaveLength(5);
    await sp.close();
    const again = await importAndKill(url, path, bytes, Infinity);
    expect(again).toMatchObject({ signal: null, stdout: "done\n", stderr: "" });
  });
});
