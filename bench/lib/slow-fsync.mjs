// A disk that takes longer to sync: every fsync and fdatasync of a process is delayed, whoever calls it.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const SOURCE = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void wait_a_little(void) { const char *us = getenv("SLOW_FSYNC_US"); if (us) usleep(atoi(us)); }
int fsync(int fd) { static int (*real)(int); if (!real) real = dlsym(RTLD_NEXT, "fsync"); wait_a_little(); return real(fd); }
int fdatasync(int fd) { static int (*real)(int); if (!real) real = dlsym(RTLD_NEXT, "fdatasync"); wait_a_little(); return real(fd); }
`;

/**
 * The environment in which a process has such a disk; `undefined` where it cannot be made: it takes Linux and gcc.
 * @param {string} folder @param {number} milliseconds
 */
export function slowFsync(folder, milliseconds) {
  if (milliseconds === 0) return {};
  const [source, library] = [join(folder, "slow.c"), join(folder, "slow.so")];
  writeFileSync(source, SOURCE);
  const { status } = spawnSync("gcc", ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]);
  return status === 0 ? { LD_PRELOAD: library, SLOW_FSYNC_US: String(milliseconds * 1000) } : undefined;
}
