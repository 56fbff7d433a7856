/**
 * Identifies processes and detects dead ones.
 *
 * A pid alone proves nothing: the system reuses pids, and two containers on one volume can have the same pids and even the
 * same boot id. A process counts as dead only if its boot id, pid namespace, pid and start time are known and the boot id
 * and namespace are those of this process. In all other cases its lease has to expire.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/** The identity of a process. Fields that the system does not provide are `undefined`. */
export interface ProcessIdentity {
  readonly host: string;
  readonly pid: number;
  /** The boot id of the machine: it changes with every boot. */
  readonly boot: string | undefined;
  /** The pid namespace that `pid` belongs to. */
  readonly namespace: string | undefined;
  /** The start time of the process in clock ticks since boot. It distinguishes two processes with the same pid. */
  readonly start: string | undefined;
}

let own: ProcessIdentity | undefined;

/** The identity of this process. It is read once. */
export function thisProcess(): ProcessIdentity {
  own ??= {
    host: hostname(),
    pid: process.pid,
    boot: tryRead(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    namespace: tryRead(() => readlinkSync("/proc/self/ns/pid")),
    start: startOf("self") ?? undefined,
  };
  return own;
}

/** Whether a process shares boot and pid namespace with this one, so that its pid shows if it is alive. */
export function sharesPidNamespace(other: ProcessIdentity): boolean {
  const { boot, namespace, start } = thisProcess();
  if (boot === undefined || namespace === undefined || start === undefined) return false;
  return other.boot === boot && other.namespace === namespace && other.start !== undefined;
}

/** Whether a process has certainly ended. */
export function isCertainlyDead(other: ProcessIdentity): boolean {
  if (!sharesPidNamespace(other)) return false;
  const start = startOf(other.pid);
  return start === null || (start !== undefined && start !== other.start);
}

/** A short description of a process, for messages. */
export function describeProcess({ host, pid }: ProcessIdentity): string {
  return `process ${pid} on ${host}`;
}

/** The start time of a process; `null` if there is no such process, `undefined` if that is unknown. */
function startOf(pid: number | "self"): string | null | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may itself contain spaces and parentheses. Zombies (Z, X) have ended.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? null : fields[19];
  } catch (error) {
    const absent = (error as NodeJS.ErrnoException).code === "ENOENT";
    return pid !== "self" && absent && isPidUnused(pid) ? null : undefined;
  }
}

/** Whether no process has this pid. Correct also on systems that hide the processes of other users. */
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
    // Not Linux, or not permitted, so no process is certainly dead.
    return undefined;
  }
}
