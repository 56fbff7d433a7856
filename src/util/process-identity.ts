/**
 * Which process this is, and whether another one is certainly dead.
 *
 * A pid alone says nothing: it is given again, and two containers on one volume have the same pids and even the same boot
 * id. Only where boot id, pid namespace, pid and start time can all be read, and the namespace is ours, a process that
 * is not there is dead. Otherwise its lease has to end.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/** Which process it is, as far as that can be told. */
export interface ProcessIdentity {
  readonly host: string;
  readonly pid: number;
  /** Differs after every start of the machine. */
  readonly boot: string | undefined;
  /** The namespace in which `pid` means something. */
  readonly namespace: string | undefined;
  /** When the process began, in the machine's own ticks: a pid is given again, its start time is not. */
  readonly start: string | undefined;
}

let own: ProcessIdentity | undefined;

/** This process. */
export function thisProcess(): ProcessIdentity {
  own ??= {
    host: hostname(),
    pid: process.pid,
    boot: tryRead(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    namespace: tryRead(() => readlinkSync("/proc/self/ns/pid")),
    start: startOf("self"),
  };
  return own;
}

/** Is this process on the same running system and in the same pid namespace, so that its pid shows whether it is alive? */
export function sharesPidNamespace(other: ProcessIdentity): boolean {
  const { boot, namespace, start } = thisProcess();
  if (boot === undefined || namespace === undefined || start === undefined) return false;
  return other.boot === boot && other.namespace === namespace && other.start !== undefined;
}

/** Is it certain that this process has ended? */
export function isCertainlyDead(other: ProcessIdentity): boolean {
  if (!sharesPidNamespace(other)) return false;
  // `null`: there is no such process; `undefined`: that cannot be told.
  const found = startOf(other.pid);
  return found === null || (found !== undefined && found !== other.start);
}

/** A process for messages. */
export function describeProcess({ host, pid }: ProcessIdentity): string {
  return `process ${pid} on ${host}`;
}

function startOf(pid: "self"): string | undefined;
function startOf(pid: number | "self"): string | null | undefined;
function startOf(pid: number | "self"): string | null | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may itself contain spaces and parentheses. A zombie has ended, and waits to be noticed.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? null : fields[19];
  } catch (error) {
    const absent = (error as NodeJS.ErrnoException).code === "ENOENT";
    return pid !== "self" && absent && isPidUnused(pid) ? null : undefined;
  }
}

/** Some systems hide the processes of other users: those that are there still refuse a signal. */
export function isPidUnused(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

function tryRead(read: () => string): string | undefined {
  try {
    return read() || undefined;
  } catch {
    // Not Linux, or a system that does not say: then nobody is certainly dead.
    return undefined;
  }
}
