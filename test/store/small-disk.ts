/** Small disks that tests mount and fill. It takes root on Linux to mount one. */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync, rmdirSync, rmSync, truncateSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isMissingFileError } from "../../src/util/file-errors.js";

export class SmallDisk {
  readonly path = mkdtempSync(join(tmpdir(), "savepoint-disk-"));

  constructor(size: string) {
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", this.path], { stdio: "pipe" });
    } catch (error) {
      rmdirSync(this.path);
      throw error;
    }
  }

  /** Fills it up to so many bytes. */
  fill(left: number): void {
    const ballast = join(this.path, "ballast");
    writeFileSync(ballast, "");
    try {
      for (;;) appendFileSync(ballast, Buffer.alloc(4_096));
    } catch {
      // It is full.
    }
    truncateSync(ballast, statSync(ballast).size - left);
  }

  /** Gives back what {@link fill} took. */
  free(): void {
    rmSync(join(this.path, "ballast"), { force: true });
  }

  /** Fails while a file on it is open, unless it is `lazy`. */
  unmount({ lazy = false } = {}): void {
    execFileSync("umount", lazy ? ["-l", this.path] : [this.path], { stdio: "pipe" });
    rmdirSync(this.path);
  }
}

/** Can small disks be mounted here? Where they cannot, it stands in the name of the tests. */
export const canMount = process.platform === "linux" && process.geteuid?.() === 0 && tryMount();
export const skipped = canMount ? "" : " (skipped: it takes root to mount a small one)";

function tryMount(): boolean {
  try {
    new SmallDisk("64k").unmount();
    return true;
  } catch (error) {
    // Root in a container may not mount, or there is no such command.
    if ((error as { status?: unknown }).status === undefined && !isMissingFileError(error)) throw error;
    return false;
  }
}
