import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const dist = fileURLToPath(new URL("../../dist/index.js", import.meta.url));
const program = fileURLToPath(new URL("./deadly-child.mjs", import.meta.url));

it("a session that ends its process is quarantined, and the sessions that ran beside it are not", async () => {
  const folder = await makeFolder();
  const url = `sqlite:${join(folder, "store.db")}`;
  const sp = await Savepoint.open(url);
  for (const session of ["a", "b", "deadly", "z"]) await sp.enqueue("agent", { session, input: session });
  const codes: (number | null)[] = [];
  for (let n = 0; n < 12 && codes.at(-1) !== 0; n++) {
    const child = spawn(process.execPath, [program, url, dist, String(n)], { stdio: "inherit" });
    codes.push(await new Promise((resolve) => child.on("close", resolve)));
  }
  expect(codes).toEqual([7, 7, 7, 7, 0]);
  const standing = Object.fromEntries((await sp.sessions.list().all()).map(({ id, status }) => [id, status]));
  expect(standing).toEqual({ a: "completed", b: "completed", deadly: "failed", z: "completed" });
  expect((await sp.sessions.load("deadly"))?.reason).toMatch(/^4 processes in a row have crashed/);
  await sp.close();
  await removeFolder(folder);
});
