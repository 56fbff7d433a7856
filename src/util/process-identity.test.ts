import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { isCertainlyDead, thisProcess } from "./process-identity.js";

const self = thisProcess();
/** Only where the system says all of it can anybody be certainly dead. */
const tells = self.boot !== undefined && self.namespace !== undefined && self.start !== undefined;

describe("a process identity", () => {
  it("does not report a running process as dead", async () => {
    expect(isCertainlyDead(self)).toBe(false);
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const pid = child.pid as number;
    // Its start time is not ours, and nobody has told us which it is: whoever has this pid now is another one.
    expect(isCertainlyDead({ ...self, pid })).toBe(tells);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(isCertainlyDead({ ...self, pid })).toBe(tells);
  });

  it("reports a process as dead if its pid does not exist", () => {
    const { pid } = spawnSync(process.execPath, ["-e", ""]);
    expect(isCertainlyDead({ ...self, pid })).toBe(tells);
  });

  it("reports a process as dead if another process has its pid", () => {
    expect(isCertainlyDead({ ...self, start: "1" })).toBe(tells);
  });

  it.each([
    ["is of another start of the machine", { boot: "another" }],
    ["is in another pid namespace", { namespace: "pid:[1]" }],
    ["does not say when the machine started", { boot: undefined }],
    ["does not say its namespace", { namespace: undefined }],
    ["does not say when it began", { start: undefined }],
  ])("may live though there is no such pid, if it %s", (_, other) => {
    const { pid } = spawnSync(process.execPath, ["-e", ""]);
    expect(isCertainlyDead({ ...self, pid, ...other })).toBe(false);
  });
});
