/** The server that tests and benchmarks start. Each of these tests starts one of its own, which takes a second. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { type Binaries, findInstalledBinaries, findServerUser, prepareBinaries } from "./binaries.mjs";
import { startPostgres } from "./server.mjs";
import { until } from "../support/until.mjs";

async function canConnect(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}

describe("a PostgreSQL server", () => {
  const program = fileURLToPath(new URL("./starting-process.mjs", import.meta.url));
  let child: ChildProcess | undefined;
  afterEach(() => child?.kill("SIGKILL"));

  it.each(["SIGKILL", "SIGINT"] as const)(
    "ends, and its folder is removed, when the process that started it gets %s",
    async (signal) => {
      const starter = (child = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] }));
      const [line] = (await once(createInterface(starter.stdout), "line")) as [string];
      const { url, folder } = JSON.parse(line) as { url: string; folder: string };
      expect(await canConnect(url)).toBe(true);
      starter.kill(signal);
      await until(async () => !existsSync(folder) && !(await canConnect(url)), "the server and its folder to be gone");
    },
  );

  it("that does not start is reported with its log and with what to do", async () => {
    await expect(startPostgres({ settings: { shared_buffers: "none" } })).rejects.toThrow(
      /^PostgreSQL did not start\. .*postgres ended with 1 in .*data:\n.*invalid value for parameter "shared_buffers"[^]*DATABASE_URL/,
    );
  });

  it("that ends during a run is reported when it is stopped", async () => {
    const server = await startPostgres();
    const [pid] = readFileSync(join(server.folder, "data", "postmaster.pid"), "utf8").split("\n");
    process.kill(Number(pid), "SIGQUIT");
    await until(() => !existsSync(server.folder), "the folder to be removed");
    await expect(server.stop()).rejects.toThrow(/PostgreSQL ended with .* during the run:\n.*immediate shutdown/s);
  });

  it("has what was committed after a crash, at the same address", async () => {
    const server = await startPostgres();
    const client = new pg.Client({ connectionString: server.url });
    client.on("error", () => {});
    await client.connect();
    await client.query("CREATE TABLE kept AS SELECT 1 AS one");
    await server.crash();
    const next = new pg.Client({ connectionString: server.url });
    await next.connect();
    expect((await next.query("SELECT one FROM kept")).rows).toEqual([{ one: 1 }]);
    await next.end();
    await server.stop();
    expect(existsSync(server.folder)).toBe(false);
  });
});

describe("the programs of PostgreSQL", () => {
  const user = findServerUser();
  /** Another folder with the programs, and one for the server, which its user may enter. */
  let [installation, folder] = ["", ""];
  let installed: Binaries;
  beforeEach(async () => {
    const base = await makeFolder();
    chmodSync(base, 0o711);
    [installation, folder] = [join(base, "installation"), join(base, "server")];
    for (const path of [installation, folder]) {
      mkdirSync(path);
      chmodSync(path, 0o755);
    }
    const native = join(installation, "native");
    cpSync(dirname(dirname(findInstalledBinaries().initdb)), native, { recursive: true, verbatimSymlinks: true });
    installed = { initdb: join(native, "bin", "initdb"), postgres: join(native, "bin", "postgres") };
  });
  afterEach(() => removeFolder(dirname(folder)));

  it("run where they were installed, if the server's user can run them there", () => {
    expect(prepareBinaries(user, folder, installed)).toEqual(installed);
  });

  it.runIf(process.getuid?.() === 0)("are copied, if the server's user cannot enter their folder", () => {
    chmodSync(installation, 0o700);
    expect(prepareBinaries(user, folder, installed).initdb).toBe(join(folder, "native", "bin", "initdb"));
  });

  it("are copied with the links between their libraries, if npm has run no scripts", () => {
    const lib = join(installation, "native", "lib");
    for (const entry of readdirSync(lib, { withFileTypes: true })) {
      if (entry.isSymbolicLink()) unlinkSync(join(lib, entry.name));
    }
    expect(prepareBinaries(user, folder, installed).initdb).toBe(join(folder, "native", "bin", "initdb"));
  });
});
