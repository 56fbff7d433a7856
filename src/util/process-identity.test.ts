import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { isCertainlyDead, thisProcess } from "./process-identity.js";

const self = thisProcess();
/** Dead processes can be detected only on systems that provide the full identity. */
const isSupported = self.boot !== undefined && self.namespace !== undefined && self.start !== undefined;

describe("a process identity", () => {
  it("does not report a running process as dead", async () => {
    expect(isCertainlyDead(self)).toBe(false);
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const pid = child.pid as number;
    // The start time is not that of the child, so this is the identity of an earlier process with the same pid.
    expect(isCertainlyDead({ ...self, pid })).toBe(isSupported);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(isCertainlyDead({ ...self, pid })).toBe(isSupported);
  });

  it("reports a process as dead if its pid does not exist", () => {
    const { pid } = spawnSync(process.execPath, ["-e", ""]);
    expect(isCertainlyDead({ ...self, pid })).toBe(isSupported);
  });

  it("reports a process as dead if another process has its pid", () => {
    expect(isCertainlyDead({ ...self, start: "1" })).toBe(isSupported);
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
