/** Which deaths of processes a worker detects by their pid, and which it must not. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { formatAnnouncement, ProcessWatcher, parseAnnouncement } from "../../src/runs/leases/process-watcher.js";
import { type ProcessIdentity, thisProcess } from "../../src/util/process-identity.js";

/** A process that lives until it is ended. */
async function startProcess(): Promise<{ identity: ProcessIdentity; end: () => Promise<void> }> {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  await new Promise((resolve) => child.once("spawn", resolve));
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
  const start = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  const end = async (): Promise<void> => {
    const closed = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGKILL");
    await closed;
  };
  return { identity: { ...thisProcess(), pid: child.pid as number, start }, end };
}

it("the death of a process on this host is reported once", async () => {
  const neighbours = new ProcessWatcher();
  const { identity, end } = await startProcess();
  neighbours.watch("one", identity);
  neighbours.watch("another of the same process", identity);
  expect(neighbours.collectDead()).toEqual([]);
  await end();
  expect(neighbours.collectDead()).toEqual(["one", "another of the same process"]);
  expect(neighbours.collectDead()).toEqual([]);
});

it("a process whose pid belongs to another process by now counts as dead", async () => {
  const neighbours = new ProcessWatcher();
  const { identity, end } = await startProcess();
  neighbours.watch("earlier", { ...identity, start: "1" });
  expect(neighbours.collectDead()).toEqual(["earlier"]);
  await end();
});

it("a pid is not used in another namespace, on another machine, or if its start time is not known", () => {
  const neighbours = new ProcessWatcher();
  const absent = { ...thisProcess(), pid: 2 ** 22 + 1, start: "1" };
  neighbours.watch("another container on the same machine", { ...absent, namespace: "pid:[1]" });
  neighbours.watch("another machine", { ...absent, boot: "another" });
  neighbours.watch("unknown", { ...absent, start: undefined });
  expect(neighbours.collectDead()).toEqual([]);
  neighbours.watch("absent", absent);
  expect(neighbours.collectDead()).toEqual(["absent"]);
});

it("other leases of the same process are not watched: they end with it", () => {
  const neighbours = new ProcessWatcher();
  neighbours.watch("other", thisProcess());
  expect(neighbours.collectDead()).toEqual([]);
});

it("a process that no longer has leases is soon not watched any more", async () => {
  const neighbours = new ProcessWatcher();
  const { identity, end } = await startProcess();
  neighbours.watch("announced", identity);
  // It may have been announced while the list was read.
  neighbours.watchAll(new Map());
  neighbours.watchAll(new Map([["announced", { process: identity }]]));
  neighbours.watchAll(new Map());
  neighbours.watchAll(new Map());
  await end();
  expect(neighbours.collectDead()).toEqual([]);
});

it("an announcement has the owner and its process, and the name of an agent is not parsed as one", () => {
  expect(parseAnnouncement(formatAnnouncement("me"))).toEqual({ owner: "me", process: thisProcess() });
  expect(parseAnnouncement("agent")).toBeUndefined();
  expect(parseAnnouncement("")).toBeUndefined();
});
