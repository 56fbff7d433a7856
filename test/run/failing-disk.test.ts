import { execFileSync } from "node:child_process";
import { fdatasync, mkdtempSync, rmdirSync } from "node:fs";
import { appendFile, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { defineAgent, type OpenOptions, Savepoint } from "../../src/index.js";
import { type SyncFile, withTestHooks } from "../../src/store/shared/index.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { errorOf } from "./lab.js";

const GO = { session: "s", input: "go" };
const COMPLETED = { status: "completed", output: "two" };
/** These tests are not about failures of background writes. */
const QUIET: OpenOptions = { on: { backgroundFailure: () => {} }, onBackgroundFailure: () => {} };

let folder: string;
const opened: Savepoint[] = [];
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(async () => {
  for (const sp of opened.splice(0)) await sp.close();
  await removeFolder(folder);
});

async function open(url: string, options: OpenOptions = {}): Promise<Savepoint> {
  const sp = await Savepoint.open(url, { ...QUIET, ...options });
  opened.push(sp);
  return sp;
}

/** An agent whose second effect is executed while the disk fails. */
function createAgent(failDisk: () => void | Promise<void> = () => {}) {
  return defineAgent({
    name: "agent",
    initial: (_input: string) => ({ text: "" }),
    async step(run) {
      run.state.text = await run.effect("first", () => "x".repeat(100));
      const output = await run.effect("second", async () => {
        await failDisk();
        return `${"y".repeat(100_000)}two`;
      });
      // The effects before it are written first, and are too large for a full disk.
      await run.effect("third", () => {});
      return run.complete(output.slice(-3));
    },
  });
}

const URLS = [
  ["sqlite:", () => `sqlite:${join(folder, "disk", "store.db")}`],
  ["file:", () => `file:${join(folder, "disk", "store")}`],
] as const;

describe.each(URLS)("a run whose disk fails to sync, on %s", (_, urlOf) => {
  let url: string;
  let fails = false;
  const syncFile: SyncFile = (file, done) => {
    if (fails) done(Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO", syscall: "fdatasync" }));
    else fdatasync(file, done);
  };
  beforeEach(async () => {
    await mkdir(join(folder, "disk"));
    url = urlOf();
    fails = false;
  });

  /** A run that failed because of the disk; the disk works again. */
  async function failRun(): Promise<{ sp: Savepoint; error: Error }> {
    const sp = await open(url, withTestHooks({ syncFile }));
    const error = await errorOf(
      sp.run(
        createAgent(() => void (fails = true)),
        GO,
      ),
    );
    fails = false;
    return { sp, error };
  }

  it("fails with the reason, and later saves fail with the same reason and its cause", async () => {
    const { sp, error } = await failRun();
    expect(error).toMatchObject({ code: "IO_FAILED", message: expect.stringMatching(/failed: EIO: i\/o error/) });
    expect(error.message).not.toMatch(/earlier write/);
    const later = await errorOf(sp.session("other").save({}));
    expect(later).toMatchObject({
      code: "IO_FAILED",
      message: expect.stringMatching(/earlier write.* failed: EIO: i\/o error/),
      cause: { code: "EIO" },
    });
  });

  it("is resumed at once by the same process after the store was closed and opened again", async () => {
    const { sp } = await failRun();
    await sp.close();
    const again = await open(url);
    expect(await again.sessions.load("s")).toMatchObject({ status: "interrupted" });
    expect(await again.run(createAgent(), GO)).toMatchObject(COMPLETED);
  });

  it("is resumed at once by the same process after the store was opened again without closing it", async () => {
    await failRun();
    const again = await open(url);
    expect(await again.run(createAgent(), GO)).toMatchObject(COMPLETED);
  });

  it("is recovered at once by the same process", async () => {
    const { sp } = await failRun();
    await sp.close();
    const [handle] = await (await open(url)).recover([createAgent()]);
    expect(await handle?.result()).toMatchObject(COMPLETED);
  });
});

const canMount = process.platform === "linux" && process.geteuid?.() === 0 && tryMount();

describe.each(URLS)(
  `a run whose disk is full, on %s${canMount ? "" : " (skipped: it takes root to mount a small one)"}`,
  (_, urlOf) => {
    let disk: string;
    beforeEach(async () => {
      if (!canMount) return;
      disk = join(folder, "disk");
      await mkdir(disk);
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
    });
    afterEach(async () => {
      if (!canMount) return;
      for (const sp of opened.splice(0)) await sp.close();
      execFileSync("umount", ["-l", disk]);
    });

    async function fill(): Promise<void> {
      const ballast = join(disk, "ballast");
      await writeFile(ballast, "");
      for (const size of [65_536, 4_096, 512]) {
        try {
          for (;;) await appendFile(ballast, Buffer.alloc(size));
        } catch {
          // A write of this size no longer fits.
        }
      }
    }

    for (const by of ["the same Savepoint", "another Savepoint"] as const) {
      it.runIf(canMount)(`fails with the reason, and is resumed at once by ${by} of the process`, async () => {
        const sp = await open(urlOf());
        const error = await errorOf(sp.run(createAgent(fill), GO));
        expect(error).toMatchObject({ code: "IO_FAILED", message: expect.stringMatching(/ENOSPC|disk is full/) });
        await rm(join(disk, "ballast"));
        const again = by === "the same Savepoint" ? sp : await open(urlOf());
        expect(await again.run(createAgent(), GO)).toMatchObject(COMPLETED);
      });
    }
  },
);

function tryMount(): boolean {
  const probe = mkdtempSync(join(tmpdir(), "savepoint-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", probe], { stdio: "ignore" });
    execFileSync("umount", [probe]);
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(probe);
  }
}
