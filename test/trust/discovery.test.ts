/** Stores that are found, and not named: another user may have put them there. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findStore, isSavepointError, Savepoint, type SavepointError } from "../../src/index.js";
import { run } from "../cli/command.js";
import { canMount } from "../store/small-disk.js";
import { requireOrSkip } from "../support/requires.js";

const isRoot = process.geteuid?.() === 0;
const asRoot = requireOrSkip(isRoot, "needs root to give a folder to another user");
const STRANGER = 54_321;

let folder: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "savepoint-found-")));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A `.savepoint` folder with a store file. */
function settle(parent: string): { readonly found: string; readonly file: string; readonly url: string } {
  const found = join(parent, ".savepoint");
  mkdirSync(found, { recursive: true });
  const file = join(found, "store.db");
  writeFileSync(file, "");
  chmodSync(found, 0o700);
  chmodSync(file, 0o600);
  return { found, file, url: `sqlite:${file}` };
}

function refusal(from = folder, env: Record<string, string> = {}): SavepointError {
  try {
    findStore(from, env);
  } catch (error) {
    if (isSavepointError(error, "UNSAFE_STORE")) return error;
    throw error;
  }
  throw new Error("The store was found.");
}

describe("a store that is found", () => {
  it("is used if it belongs to the user and only the user can write it", () => {
    const { url, found, file } = settle(folder);
    expect(findStore(folder, {})).toBe(url);
    chmodSync(found, 0o755);
    chmodSync(file, 0o644);
    expect(findStore(folder, {})).toBe(url);
  });

  it("is refused if everybody can write its folder or its file, and the error says how to fix it", () => {
    const { url, found, file } = settle(folder);
    for (const [path, mode] of [
      [found, 0o777],
      [file, 0o666],
    ] as const) {
      chmodSync(path, mode);
      const { message, details } = refusal();
      expect(message).toContain("chmod go-w");
      expect(message).toContain(`${path} can be written by other users`);
      expect(message).toContain(url);
      expect(details).toMatchObject({ path });
      chmodSync(path, mode & 0o755);
    }
    expect(findStore(folder, {})).toBe(url);
  });

  it("is refused by the command line and its MCP server", async () => {
    const { found } = settle(folder);
    chmodSync(found, 0o777);
    for (const verb of ["sessions", "mcp", "init"]) {
      const { code, stderr } = await run([verb, "--json"], { cwd: folder });
      expect(code).toBe(10);
      expect(stderr).toContain("UNSAFE_STORE");
    }
    const doctor = await run(["doctor", "--json"], { cwd: folder });
    expect(doctor.code).toBe(10);
    expect(doctor.stdout).toContain("chmod go-w");
  });

  it("needs no check if it is named", async () => {
    const { found, file, url } = settle(folder);
    rmSync(file);
    chmodSync(found, 0o777);
    await using sp = await Savepoint.open(url);
    await sp.session("s").save(1);
    expect(findStore(folder, { SAVEPOINT_URL: url })).toBe(url);
    expect((await run(["sessions", "--store", url], { cwd: folder })).code).toBe(0);
  });

  it("is used in spite of its mode if SAVEPOINT_SAFE_DIRECTORY lists the folder around it", () => {
    const { found, url } = settle(folder);
    chmodSync(found, 0o777);
    const allow = (value: string): Record<string, string> => ({ SAVEPOINT_SAFE_DIRECTORY: value });
    expect(findStore(folder, allow(["/elsewhere", folder].join(delimiter)))).toBe(url);
    expect(findStore(folder, allow("*"))).toBe(url);
    for (const other of ["", "/elsewhere", join(folder, "deeper"), "."]) {
      expect(refusal(folder, allow(other)).message).toContain("SAVEPOINT_SAFE_DIRECTORY");
    }
  });

  it("is judged by the target of a symlink", () => {
    const target = join(folder, "target");
    const real = settle(target);
    const linked = join(folder, "linked");
    mkdirSync(linked);
    symlinkSync(real.found, join(linked, ".savepoint"));
    expect(findStore(linked, {})).toBe(`sqlite:${join(linked, ".savepoint", "store.db")}`);
    chmodSync(real.found, 0o777);
    expect(refusal(linked).message).toContain(join(linked, ".savepoint"));
  });

  it("is not searched through a symlink that leads nowhere or in a circle", () => {
    const { url } = settle(folder);
    const inner = join(folder, "inner");
    mkdirSync(inner);
    symlinkSync(join(inner, ".savepoint"), join(inner, ".savepoint"));
    expect(findStore(inner, {})).toBe(url);
  });

  asRoot("is refused if its folder or its file belongs to another user, who is named", () => {
    const { found, file, url } = settle(folder);
    for (const path of [found, file]) {
      chownSync(path, STRANGER, STRANGER);
      const { message, details } = refusal();
      expect(message).toContain(`belongs to user ${STRANGER}`);
      expect(message).toContain(path);
      expect(message).toContain(url);
      expect(details).toMatchObject({ path, owner: STRANGER });
      chownSync(path, 0, 0);
    }
  });

  asRoot("may belong to the user who called sudo", () => {
    const { found, file, url } = settle(folder);
    for (const path of [found, file]) chownSync(path, STRANGER, STRANGER);
    expect(findStore(folder, { SUDO_UID: String(STRANGER) })).toBe(url);
    for (const uid of ["", "x", String(STRANGER + 1)]) expect(refusal(folder, { SUDO_UID: uid }).code).toBeTruthy();
  });
});

describe("the search for a store", () => {
  it("ends at the home folder", () => {
    settle(folder);
    const home = join(folder, "home");
    const work = join(home, "work");
    mkdirSync(work, { recursive: true });
    expect(findStore(work, { HOME: home })).toBe(`sqlite:${join(work, ".savepoint", "store.db")}`);
    const own = settle(home);
    expect(findStore(work, { HOME: home })).toBe(own.url);
    // Outside of the home folder, it ends at the root.
    expect(findStore(work, { HOME: homedir() })).toBe(own.url);
  });

  requireOrSkip(canMount, "needs root to mount a small disk")("ends at the border of a file system", () => {
    const outer = settle(folder);
    const mounted = join(folder, "mounted");
    mkdirSync(mounted);
    expect(findStore(mounted, {})).toBe(outer.url);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", mounted]);
    try {
      const work = join(mounted, "work");
      mkdirSync(work);
      expect(findStore(work, {})).toBe(`sqlite:${join(work, ".savepoint", "store.db")}`);
    } finally {
      execFileSync("umount", [mounted]);
    }
  });
});
