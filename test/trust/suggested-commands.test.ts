/** Commands that savepoint suggests are copied into a shell, with ids that somebody else has chosen. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { environment, PROGRAM } from "../cli/command.js";
import { createPlace, type Place } from "../cli/place.js";
import { isFull } from "../support/runs.js";

const HOSTILE = [
  "$(touch stolen)",
  "`touch stolen`",
  "'; touch stolen; '",
  '"; touch stolen; "',
  "a; touch stolen",
  "a & touch stolen",
  "a > stolen",
  "-x",
  "--store=sqlite:stolen",
  "--",
  "-",
  "~",
  "#a",
  "*",
  "a b",
  "\\",
  "!!",
  "ü/x",
];

/** Runs a suggested command line as a user does who copies it. The store is named by the environment. */
function paste(place: Place, line: string): string {
  const script = `savepoint() { "$NODE" "$PROGRAM" "$@"; }; ${line}`;
  const env = environment({ NODE: process.execPath, PROGRAM, SAVEPOINT_URL: place.url });
  const { status, stdout, stderr } = spawnSync("sh", ["-c", script], { cwd: place.folder, env, encoding: "utf8" });
  expect({ status, stderr }, line).toMatchObject({ status: 0 });
  return stdout + stderr;
}

/** The command in a printed line. */
function commandIn(output: string, pattern: RegExp): string {
  const [, command] = pattern.exec(output) ?? [];
  expect(command, output).toBeDefined();
  return command as string;
}

describe.each(isFull ? HOSTILE : HOSTILE.slice(0, 1).concat("--store=sqlite:stolen"))(
  "a command that is suggested for the session %j",
  (id) => {
    it("does what it says when a shell executes it, and nothing else", async (test) => {
      const place = createPlace(test);
      const expected = ["s.db", "s.db-shm", "s.db-wal"];
      await place.fill(async (sp) => {
        for (let n = 0; n < 3; n++) await sp.session(id).save({ n });
      });
      const named = (verb: string, name: string, ...options: string[]): string[] => [verb, ...options, "--", name];
      const rewound = await place.on(named("rewind", `${id}#0`));
      const undo = commandIn(rewound.stderr, /^To undo: (savepoint .*)$/m);
      expect(paste(place, undo)).toContain("Rewound");
      expect(await place.leave(async (sp) => (await sp.session(id).latest())?.state)).toEqual({ n: 2 });

      const forked = await place.on(named("fork", `${id}#0`));
      expect(paste(place, commandIn(forked.stderr, /^To inspect it: (savepoint .*)$/m))).toContain("session");

      const missing = await place.on(named("show", `${id}#99`));
      const list = commandIn(missing.stderr, /"(savepoint log .*)" lists the checkpoints/);
      expect(paste(place, list)).toContain("session");

      const restored = await place.on(named("restore", `${id}#0`, "--yes"));
      // It asks for confirmation.
      const undoRestore = commandIn(restored.stderr, /^To undo: (savepoint .*)$/m);
      expect(paste(place, undoRestore.replace("restore", "restore --yes"))).toContain("Restored");

      expect(existsSync(place.path("stolen"))).toBe(false);
      expect(readdirSync(place.folder).filter((name) => !expected.includes(name))).toEqual([]);
    });
  },
);
