// Interrupted work and stores that cannot be written: nothing is lost, and the command can be repeated.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { CTRL_C, type Ended, errorOf, type Started } from "./command.js";
import { Place, saveTrip, usePlace } from "./place.js";

const SESSIONS = 200;
const EACH = 20;

const tool = usePlace();
let large: Place;

/** A store that takes a while to read, and a bundle of all of it. */
beforeAll(async () => {
  large = new Place();
  await large.leave(async (sp) => {
    const text = "lorem ipsum ".repeat(20);
    const fill = async (n: number): Promise<void> => {
      const session = sp.session(`s${n}`);
      await session.save({ n, messages: [] });
      for (let at = 1; at < EACH; at++) await session.append("/messages", [`${n}.${at} ${text}`]);
    };
    await Promise.all(Array.from({ length: SESSIONS }, (_, n) => fill(n)));
    await sp.export({}).save(large.path("all.savepoint"));
  });
});

afterAll(() => large.end());

const useLarge = (): void => copyFileSync(large.path("s.db"), tool().path("s.db"));

/** Files in the folder that belong neither to the store nor to the tests. */
const leftovers = (): string[] =>
  readdirSync(tool().folder, { recursive: true, encoding: "utf8" }).filter(
    (name) => !/^(s\.db(-wal|-shm)?|backups|all\.savepoint)$/.test(name),
  );

interface Work {
  readonly name: string;
  readonly args: readonly string[];
  /** The label of the progress bar. */
  readonly doing: string;
  readonly prepare: () => Promise<void>;
  /** Checks that repeating the command was sufficient. */
  readonly check: () => Promise<void>;
}

const stillThere = async (checkpoints: number): Promise<void> => {
  await tool().leave(async (sp) => {
    expect((await sp.verify({ deep: true })).problems).toEqual([]);
    expect(await sp.stats()).toMatchObject({ sessions: SESSIONS, checkpoints });
    expect((await sp.session("s7").latest())?.state).toMatchObject({ n: 7 });
  });
};

const ALL = SESSIONS * EACH;

const WORK: readonly Work[] = [
  {
    name: "prune",
    args: ["prune", "--keep-last", "2", "--yes"],
    doing: "Pruning",
    prepare: async () => useLarge(),
    check: () => stillThere(SESSIONS * 2),
  },
  {
    name: "export",
    args: ["export", "-o", "out.savepoint"],
    doing: "Exporting",
    prepare: async () => useLarge(),
    async check() {
      expect(await tool().leave((sp) => sp.verify({ bundle: tool().path("out.savepoint") }))).toMatchObject({
        ok: true,
        checkpoints: ALL,
      });
    },
  },
  {
    name: "import",
    args: ["import", "all.savepoint"],
    doing: "Importing",
    async prepare() {
      copyFileSync(large.path("all.savepoint"), tool().path("all.savepoint"));
      await tool().leave(async () => {});
    },
    check: () => stillThere(ALL),
  },
  {
    name: "backup",
    args: ["backup", "--to", "backups"],
    doing: "Backing up",
    prepare: async () => useLarge(),
    async check() {
      expect(readdirSync(tool().path("backups"))).toHaveLength(1);
    },
  },
  {
    name: "verify",
    args: ["verify", "--deep"],
    doing: "Verifying",
    prepare: async () => useLarge(),
    check: () => stillThere(ALL),
  },
  {
    name: "compact",
    args: ["compact"],
    doing: "Compacting",
    prepare: async () => useLarge(),
    check: () => stillThere(ALL),
  },
];

describe.each(WORK)("$name, interrupted", ({ args, doing, prepare, check }) => {
  it.each(["Ctrl-C", "SIGTERM"])(
    "%s leaves a consistent store and no temporary files, and the command can be repeated",
    async (how) => {
      await prepare();
      const terminal = tool().spawnTerminalOn(args);
      // The bar shows a rate only in the middle of the work.
      await terminal.seen(new RegExp(`${doing} [\\d,.]+.*/s`));
      if (how === "Ctrl-C") terminal.type(CTRL_C);
      else process.kill(terminal.pty.pid, "SIGTERM");
      const { code, screen } = await terminal.ended;
      expect(code, screen).toBe(130);
      expect(screen).toContain("the store is consistent");
      expect(leftovers()).toEqual([]);
      await tool().leave(async (sp) => expect((await sp.verify({ deep: true })).problems).toEqual([]));
      const again = await tool().on(args);
      expect(again.code, again.stderr).toBe(0);
      // Without a terminal there is no bar.
      expect(again.stderr).not.toContain(doing);
      await check();
    },
  );
});

describe("kill -9 of the command line", () => {
  const KILLED = WORK.filter(({ name }) => name !== "verify" && name !== "export");
  it.each(KILLED)(
    "killing $name loses nothing, and the command can be repeated",
    async ({ args, doing, prepare, check }) => {
      await prepare();
      const terminal = tool().spawnTerminalOn(args);
      await terminal.seen(new RegExp(`${doing} [\\d,.]+.*/s`));
      terminal.pty.kill("SIGKILL");
      await terminal.ended;
      await tool().leave(async (sp) => expect((await sp.verify({ deep: true })).problems).toEqual([]));
      // The temporary file of an abandoned backup is removed after an hour.
      if (args[0] === "backup") rmSync(tool().path("backups"), { recursive: true, force: true });
      const again = await tool().on(args);
      expect(again.code, again.stderr).toBe(0);
      await check();
    },
  );
});

it("Ctrl-C ends an import that waits for stdin", async () => {
  await tool().leave((sp) => saveTrip(sp));
  const terminal = tool().spawnTerminalOn(["import", "-"]);
  await terminal.seen("Importing");
  terminal.type(CTRL_C);
  const { code, screen } = await terminal.ended;
  expect(code).toBe(130);
  expect(screen).toContain("the store is consistent");
});

describe("the progress bar", () => {
  it("a terminal shows progress, rate and remaining time on stderr", async () => {
    useLarge();
    const terminal = tool().spawnTerminalOn(["verify", "--deep"]);
    const { code, screen } = await terminal.ended;
    expect(code).toBe(0);
    expect(screen).toMatch(/Verifying [\d,]+ of 4,000 checkpoints, [\d,]+\/s, \d+ s left/);
    expect(screen).toContain("No damage found");
  });

  it("the bar is hidden with --quiet and if stderr is not a terminal", async () => {
    useLarge();
    const quiet = await tool().spawnTerminalOn(["verify", "--quiet"]).ended;
    expect(quiet.code).toBe(0);
    expect(quiet.screen).not.toContain("Verifying");
    const piped = await tool().on(["verify"]);
    expect(piped).toMatchObject({ code: 0, stderr: "" });
  });

  it("the bar does not interfere with JSON output", async () => {
    useLarge();
    const { code, screen } = await tool().spawnTerminalOn(["verify", "--json"]).ended;
    expect(code).toBe(0);
    // eslint-disable-next-line no-control-regex -- terminal control sequences
    const shown = screen.replaceAll(/\u001b\[[\d;?]*[A-Za-z]/g, "");
    expect(JSON.parse(shown.slice(shown.indexOf("{")))).toMatchObject({ ok: true });
  });
});

describe("a store that another process has locked", () => {
  /** Labels a checkpoint while another process holds the lock, which is released when `work` is done. */
  async function whileLocked(work: (started: Started) => Promise<void>): Promise<Ended> {
    await tool().leave((sp) => saveTrip(sp));
    const database = await openDatabase(tool().path("s.db"));
    try {
      database.exec("BEGIN IMMEDIATE");
      const started = tool().spawnOn(["--json", "label", "trip#1", "x"], { stdin: "" });
      await work(started);
      database.exec("ROLLBACK");
      return await started.ended;
    } finally {
      database.close();
    }
  }

  it("a verb that writes exits with 11, and verbs that read still work", async () => {
    const ended = await whileLocked(async (started) => {
      const shown = await tool().on(["show", "trip", "--json"]);
      expect(shown.code, shown.stderr).toBe(0);
      await started.seen("BUSY");
    });
    expect(errorOf(ended, 11).code).toBe("BUSY");
    expect((await tool().on(["label", "trip#1", "x"])).code).toBe(0);
  });

  it("a second interrupt does not wait for the lock", async () => {
    let over: unknown;
    await whileLocked(async (started) => {
      await started.seen("BUSY");
      over = await Promise.race([started.ended, sleep(5000)]);
    });
    expect(over).toBeDefined();
  });
});

// Only root can mount small or read-only disks. CI runs as root and fails otherwise.
const isRoot = process.platform === "linux" && process.getuid?.() === 0;

describe.skipIf(!isRoot && !process.env["CI"])("a disk", () => {
  /** Runs `work` on a temporary disk. */
  async function withDisk(options: string, work: (folder: string) => Promise<void>): Promise<void> {
    const folder = tool().path("disk");
    mkdirSync(folder);
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]);
    try {
      await work(folder);
    } finally {
      execFileSync("umount", ["-l", folder]);
    }
  }

  it("a full disk fails export, backup and import with exit code 1, leaves no partial file and an intact store", async () => {
    useLarge();
    await withDisk("size=600k", async (folder) => {
      expect((await tool().on(["export", "-o", `${folder}/all.savepoint`])).code).toBe(1);
      expect(readdirSync(folder)).toEqual([]);
      await tool().fail(["backup", "--to", folder], 1);
      expect(readdirSync(folder)).toEqual([]);
      const url = `sqlite:${folder}/s.db`;
      await tool().leave((sp) => saveTrip(sp), url);
      const bundle = large.path("all.savepoint");
      const refused = await tool().run(["import", bundle, "--store", url, "--json"]);
      expect(refused).toMatchObject({ code: 1, stdout: "" });
      expect(JSON.parse(refused.stderr.split("\n")[0] as string)).toMatchObject({ error: { code: "IO_FAILED" } });
      const verified = await tool().run(["verify", "--deep", "--store", url, "--json"]);
      expect(verified.code, verified.stdout).toBe(0);
      const shown = await tool().run(["show", "trip", "--store", url, "--json"]);
      expect(JSON.parse(shown.stdout)).toMatchObject({ state: { n: 4 } });
      const doctor = await tool().run(["doctor", "--store", url, "--json"]);
      expect(doctor.code).toBe(1);
      expect(doctor.stdout).toContain("Free some space");
    });
  });

  /** A store on a read-only disk. */
  async function whereNothingIsWritten(work: (url: string, folder: string) => Promise<void>): Promise<void> {
    await tool().leave((sp) => saveTrip(sp));
    await withDisk("size=4m", async (folder) => {
      copyFileSync(tool().path("s.db"), `${folder}/s.db`);
      execFileSync("mount", ["-o", "remount,ro", folder]);
      await work(`sqlite:${folder}/s.db`, folder);
    });
  }

  it("a verb that writes to a read-only disk reports it in plain words", async () => {
    await whereNothingIsWritten(async (url, folder) => {
      const { message } = errorOf(await tool().run(["label", "trip#1", "x", "--store", url, "--json"]), 1);
      expect(message).toContain("is writable");
      errorOf(await tool().run(["init", "--store", `sqlite:${folder}/new.db`, "--json"]), 1);
    });
  });

  it("init reports that it cannot create a store on a read-only disk", async () => {
    await whereNothingIsWritten(async (_, folder) => {
      errorOf(await tool().run(["init", "--json"], { cwd: folder }), 1);
    });
  });

  it("a store on a read-only disk can be read", async () => {
    await whereNothingIsWritten(async (url) => {
      expect((await tool().run(["show", "trip", "--store", url, "--json"])).code).toBe(0);
    });
  });
});

it("an empty file is not a store for a verb that reads, and it is not modified", async () => {
  writeFileSync(tool().path("s.db"), "");
  expect((await tool().on(["verify"])).code).toBe(10);
  expect(statSync(tool().path("s.db")).size).toBe(0);
});
