// Cuts the power under a store that is being written, again and again, and checks that nothing is lost that was
// acknowledged before.
//
//   npm run test:power [cycles] [sqlite | file]
//
// The store is on an ext4 file system in a file, which is shut down with EXT4_IOC_SHUTDOWN in the middle of the work: what
// was not synced is gone, as it would be with the machine. It needs Linux, root, mkfs.ext4, mount and perl. To see that the
// test can fail, a few more cycles run with a writer that acknowledges without syncing: some of those must lose something.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const CYCLES = Number(process.argv[2] ?? 30);
const BAD_CYCLES = 5;
const SCHEME = process.argv[3] ?? "sqlite";
/** @param {string} folder */
const urlIn = (folder) => (SCHEME === "file" ? `file:${join(folder, "store")}` : `sqlite:${join(folder, "store.db")}`);
const writer = fileURLToPath(new URL("writer.mjs", import.meta.url));
const reader = fileURLToPath(new URL("reader.mjs", import.meta.url));
const TURN_OFF = `open(my $d, "<", $ARGV[0]) or die $!; my $f = pack("L", 2); ioctl($d, 0x8004587D, $f) or die $!`;

if (process.platform !== "linux" || process.getuid?.() !== 0) {
  console.error(
    "The power-cut test needs Linux and root: it mounts a file system and shuts it down. Nothing was done.",
  );
  process.exit(1);
}

let failed = false;
const good = await run(`Savepoint on ${SCHEME}:`, CYCLES, "sync");
console.log(`${CYCLES} power cuts, ${good.acknowledged} saves acknowledged before them, ${good.lost.length} lost`);
for (const line of good.lost) console.log(`  lost: ${line}`);
failed ||= good.lost.length > 0;
const bad = await run("a writer that does not sync", BAD_CYCLES, "no-sync");
console.log(
  `${BAD_CYCLES} power cuts with a writer that does not sync: the newest saves of ${bad.lost.length} sessions lost`,
);
if (bad.lost.length === 0) {
  console.log("  That it lost nothing means that this test would not notice a loss.");
  failed = true;
}
process.exit(failed ? 1 : 0);

/** @param {string} name @param {number} cycles @param {"sync" | "no-sync"} mode */
async function run(name, cycles, mode) {
  let acknowledged = 0;
  /** @type {string[]} */
  const lost = [];
  for (let cycle = 0; cycle < cycles; cycle++) {
    const disk = makeDisk();
    try {
      const acks = await cutWhileWriting(disk, mode);
      acknowledged += acks.total;
      disk.remount();
      const found = findLost(disk.folder, acks.last);
      lost.push(...found.map((what) => `cycle ${cycle}: ${what}`));
      console.error(`${name}, cycle ${cycle + 1}/${cycles}: ${acks.total} acknowledged, ${found.length} lost`);
    } finally {
      disk.remove();
    }
  }
  return { acknowledged, lost };
}

function makeDisk() {
  const root = mkdtempSync(join(tmpdir(), "savepoint-power-"));
  const image = join(root, "disk.img");
  const folder = join(root, "disk");
  const mount = () => command("mount", "-o", "loop", image, folder);
  command("truncate", "-s", "96M", image);
  command("mkfs.ext4", "-q", image);
  command("mkdir", folder);
  mount();
  return {
    folder,
    turnOff: () => command("perl", "-e", TURN_OFF, folder),
    remount() {
      command("umount", folder);
      mount();
    },
    remove() {
      spawnSync("umount", [folder]);
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/**
 * Lets a process write until a moment by chance, cuts the power, and ends the process. Only what it said before the cut
 * counts.
 * @param {ReturnType<typeof makeDisk>} disk @param {string} mode
 */
async function cutWhileWriting(disk, mode) {
  const child = spawn(process.execPath, [writer, urlIn(disk.folder), mode], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  /** @type {Map<string, number>} */
  const last = new Map();
  let total = 0;
  let cut = false;
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => {
    if (cut) return;
    const [session = "", step = ""] = line.split(" ");
    last.set(session, Math.max(last.get(session) ?? -1, Number(step)));
    total++;
  });
  await new Promise((resolve) => lines.once("line", resolve));
  await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 1500));
  cut = true;
  disk.turnOff();
  child.kill("SIGKILL");
  await ended;
  return { last, total };
}

/**
 * Looks in a process of its own, so that no file is open when the disk is taken away.
 * @param {string} folder @param {ReadonlyMap<string, number>} acknowledged @returns {string[]}
 */
function findLost(folder, acknowledged) {
  const args = [reader, urlIn(folder), JSON.stringify([...acknowledged])];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  return status === 0 ? JSON.parse(stdout) : [`everything: ${stderr}`];
}

/** @param {string} name @param {string[]} args */
function command(name, ...args) {
  const { status, stderr } = spawnSync(name, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${name} ${args.join(" ")} failed: ${stderr}`);
}
