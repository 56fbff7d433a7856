import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const dist = fileURLToPath(new URL("../../dist/index.js", import.meta.url));
const program = fileURLToPath(new URL("./busy-child.mjs", import.meta.url));

it("a process keeps its lease while its main thread computes for longer than the lease lasts", async () => {
  const folder = await makeFolder();
  const children: ChildProcess[] = [];
  onTestFinished(async () => {
    for (const child of children) child.kill("SIGKILL");
    await removeFolder(folder);
  });
  const run = (role: string): Promise<string[]> =>
    new Promise((resolve, reject) => {
      const given = [role, `sqlite:${join(folder, "store.db")}`, dist, join(folder, "enough")];
      const child = spawn(process.execPath, [program, ...given], { stdio: ["ignore", "pipe", "inherit"] });
      children.push(child);
      let said = "";
      child.stdout.on("data", (part: Buffer) => (said += part.toString()));
      child.on("error", reject);
      child.on("exit", (code) =>
        code === 0 ? resolve(said.trim().split("\n")) : reject(new Error(`${role} ended with ${code}: ${said}`)),
      );
    });
  const [busy, rival] = await Promise.all([run("busy"), run("rival")]);
  expect(busy).toEqual(["busy", "completed done"]);
  expect(new Set(rival.slice(0, -1))).toEqual(new Set(["ALREADY_RUNNING"]));
  expect(rival.length).toBeGreaterThan(5);
  expect(rival.at(-1)).toBe("completed done");
});
