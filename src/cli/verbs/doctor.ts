import { stat, statfs } from "node:fs/promises";
import { arch, platform } from "node:os";
import { basename, dirname, join } from "node:path";
import { isSavepointError, type Savepoint, type SessionInfo } from "../../index.js";
import type { Cli } from "../cli.js";
import { EXIT, exitCodeForError, type ExitCode } from "../exit-codes.js";
import { formatBytes, formatCount } from "../format.js";
import { withoutOpenAdvice } from "../library-message.js";
import { ANSWER_THREAD, suggestResume } from "../resume-hint.js";
import { formatStatusCounts, STATUSES } from "../session-status.js";
import { quoteForShell } from "../shell.js";
import { storePath } from "../store-path.js";
import { defineVerb } from "../verb.js";
import { version } from "../version.js";

/** The result of one check. */
interface Finding {
  readonly check: string;
  readonly state: "ok" | "note" | "problem";
  readonly detail: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** How many sessions and checkpoints are checked at most. */
const MAX_SESSIONS = 5000;
const MAX_CHECKPOINTS = 2000;
/** Less free space than this is a problem, in bytes. */
const MIN_FREE_SPACE = 200e6;

export const doctor = defineVerb({
  name: "doctor",
  group: "Set up",
  summary: "check the installation and the store, and suggest what to do",
  examples: [
    ["savepoint doctor", "after a crash, or before asking for help"],
    ["savepoint doctor --json", "for monitoring; the exit code reports problems too"],
  ],
  declare() {},
  async run(cli) {
    const findings: Finding[] = [];
    let code: ExitCode = EXIT.ok;
    for await (const finding of runChecks(cli, (exitCode) => (code = exitCode))) findings.push(finding);
    const { colors } = cli.output;
    const marks = { ok: colors.green("ok"), note: colors.yellow("note"), problem: colors.red("problem") };
    await cli.output.list(findings, {
      columns: [
        { title: "CHECK", cell: ({ check }) => check },
        { title: "STATE", cell: ({ state }) => marks[state] },
        {
          title: "DETAIL",
          cell: ({ detail, advice }) => (advice ? `${detail.replace(/\.$/, "")}. ${advice}` : detail),
        },
      ],
      empty: "",
    });
    if (code === EXIT.ok && findings.some(({ state }) => state === "problem")) return EXIT.failed;
    return code;
  },
});

/** Runs all checks. A problem with an exit code of its own is reported with `onExitCode`. */
async function* runChecks(cli: Cli, onExitCode: (code: ExitCode) => void): AsyncGenerator<Finding> {
  yield ok("savepoint", `${version()} on Node ${cli.io.node.version}, ${platform()} ${arch()}`);
  yield await checkSqlite();
  yield* checkConnection(cli);
  let sp: Savepoint;
  try {
    sp = await cli.read();
  } catch (error) {
    if (!isSavepointError(error)) throw error;
    onExitCode(exitCodeForError(error.code));
    const advice = error.code === "STORE_NOT_FOUND" ? 'Run "savepoint init", or pass --store' : undefined;
    yield { check: "store", state: "problem", detail: withoutOpenAdvice(error.message), ...(advice && { advice }) };
    return;
  }
  const stats = await sp.stats();
  const counts = `${formatCount(stats.sessions, "session")}, ${formatCount(stats.checkpoints, "checkpoint")}`;
  yield ok("store", `${sp.url}, ${counts}, ${formatBytes(stats.bytes)}`);
  yield* checkDisk(sp.url);
  yield* checkAccess(sp.url);
  yield checkShutdown(sp);
  yield* checkSessions(cli, sp);
  const report = await sp.verify({ sample: Math.min(1, MAX_CHECKPOINTS / Math.max(1, stats.checkpoints)) });
  if (report.ok) {
    yield ok("damage", `none found in ${formatCount(report.checkpoints, "checkpoint")}`);
    return;
  }
  onExitCode(EXIT.damage);
  yield {
    check: "damage",
    state: "problem",
    detail: `${formatCount(report.problems.length, "problem")}: ${report.problems[0]?.reason ?? ""}`,
    advice: 'Run "savepoint verify --deep" for details and "savepoint repair --from ./backups" to repair',
  };
}

function ok(check: string, detail: string): Finding {
  return { check, state: "ok", detail };
}

async function checkSqlite(): Promise<Finding> {
  const { Savepoint } = await import("../../index.js");
  try {
    const memory = await Savepoint.open("sqlite::memory:");
    await memory.close();
    return ok("sqlite", "the driver works");
  } catch (error) {
    return { check: "sqlite", state: "problem", detail: (error as Error).message };
  }
}

async function* checkDisk(url: string): AsyncGenerator<Finding> {
  const path = storePath(url);
  if (path === undefined) return;
  const { bavail, bsize } = await statfs(dirname(path));
  const free = bavail * bsize;
  const detail = `${formatBytes(free)} free`;
  if (free >= MIN_FREE_SPACE) yield ok("disk", detail);
  else yield { check: "disk", state: "problem", detail, advice: "Free some space: saves will fail" };
}

/** Reports files of the store that other users can read or write, and a store that git would add to a repository. */
async function* checkAccess(url: string): AsyncGenerator<Finding> {
  const path = storePath(url);
  // Windows has no modes.
  if (path === undefined || platform() === "win32") return;
  const folder = dirname(path);
  const isDefault = basename(folder) === ".savepoint";
  const isPrivate = isDefault && (await modeOf(folder)) === 0;
  const own = await modeOf(path);
  const loose: string[] = [];
  let modes = 0;
  for (const each of isPrivate ? [] : [path, `${path}-wal`, `${path}-shm`, ...(isDefault ? [folder] : [])]) {
    const mode = await modeOf(each);
    // SQLite creates the other files with the mode of the first, and removes them when the store is closed.
    if (mode === 0 || (each.startsWith(`${path}-`) && mode === own)) continue;
    loose.push(each);
    modes |= mode;
  }
  if (loose.length === 0) yield ok("access", "only you can read the store");
  else {
    const action = modes & 0o022 ? "write" : "read";
    const options = url.startsWith("file:") ? ["-R", "go-rwx"] : ["go-rwx"];
    yield {
      check: "access",
      state: modes & 0o002 ? "problem" : "note",
      detail: `other users can ${action} ${loose.join(", ")}`,
      advice: `Run: ${["chmod", ...options, ...loose].map(quoteForShell).join(" ")}`,
    };
  }
  const ignore = join(folder, ".gitignore");
  if (!isDefault || (await stat(ignore).catch(() => undefined))) return;
  const advice = `Run: echo '*' > ${quoteForShell(ignore)}`;
  yield { check: "git", state: "note", detail: `git would add the store: there is no ${ignore}`, advice };
}

/** What the group and other users may do with a file: nothing, if there is no such file. */
async function modeOf(path: string): Promise<number> {
  const stats = await stat(path).catch(() => undefined);
  return (stats?.mode ?? 0) & 0o077;
}

/** Reports a URL of PostgreSQL that exposes its data or its password to others. */
function* checkConnection({ storeUrl, io: { env } }: Cli): Generator<Finding> {
  const url = storeUrl ?? env["SAVEPOINT_URL"] ?? "";
  if (!/^postgres(ql)?:/i.test(url) || !URL.canParse(url)) return;
  const { hostname, password, searchParams } = new URL(url);
  const host = decodeURIComponent(searchParams.get("host") ?? hostname);
  const isLocal = /^(|localhost|127\..*|\[?::1\]?|\/.*)$/.test(host);
  const mode = searchParams.get("sslmode") ?? env["PGSSLMODE"] ?? "";
  if (!isLocal && !["require", "verify-ca", "verify-full"].includes(mode)) {
    const detail = `the connection to ${host} may be unencrypted`;
    yield { check: "tls", state: "problem", detail, advice: "Add sslmode=verify-full to the URL" };
  }
  if (storeUrl !== undefined && (password !== "" || searchParams.has("password"))) {
    const detail = "--store contains a password, and other users can list the arguments of a process";
    yield { check: "password", state: "problem", detail, advice: "Use SAVEPOINT_URL, PGPASSWORD or ~/.pgpass" };
  }
}

function checkShutdown({ lastShutdown }: Savepoint): Finding {
  const { clean, processes, interrupted } = lastShutdown;
  if (clean) return ok("shutdown", "every process has closed the store");
  const crashed = processes.map(({ pid, host }) => `process ${pid} on ${host}`).join(", ");
  const runs = interrupted.length > 0 ? ` and interrupted ${formatCount(interrupted.length, "run")}` : "";
  const detail = `${crashed} ended without closing the store${runs}`;
  // Runs that are still interrupted are reported by a finding of their own.
  return { check: "shutdown", state: "note", detail };
}

function adviseResume(cli: Cli): string {
  return `To resume, ${suggestResume(cli)}`;
}

/** What to do about sessions with a certain status. */
const SESSION_ADVICE: Readonly<Record<string, string>> = {
  failed: 'Run "savepoint sessions --status failed" for the reasons',
  halted: 'Run "savepoint sessions --status halted" for the reasons',
};

async function* checkSessions(cli: Cli, sp: Savepoint): AsyncGenerator<Finding> {
  const byStatus = new Map<string, SessionInfo[]>();
  let count = 0;
  for await (const info of sp.sessions.list({ limit: MAX_SESSIONS })) {
    count++;
    byStatus.set(info.status, [...(byStatus.get(info.status) ?? []), info]);
  }
  const found = STATUSES.map((status) => [status, byStatus.get(status)?.length ?? 0] as const);
  const counts = formatStatusCounts(Object.fromEntries(found.filter(([, number]) => number > 0)));
  const scope = count === MAX_SESSIONS ? ` among the newest ${MAX_SESSIONS}` : "";
  yield ok("sessions", count === 0 ? "none" : `${counts}${scope}`);
  yield* checkWaiting(byStatus.get("waiting") ?? []);
  for (const [status, advice] of Object.entries({ interrupted: adviseResume(cli), ...SESSION_ADVICE })) {
    const infos = byStatus.get(status) ?? [];
    if (infos.length > 0) yield { check: status, state: "note", detail: listIds(infos), advice };
  }
}

/** A session that waits has a question, or a time at which it wakes; or it is a thread, which only its graph can resume. */
function* checkWaiting(infos: readonly SessionInfo[]): Generator<Finding> {
  const asking = infos.filter(({ questions }) => questions.length > 0);
  const others = infos.filter(({ questions, wakeAt }) => questions.length === 0 && wakeAt === undefined);
  const sleeping = infos.filter((info) => !asking.includes(info) && !others.includes(info));
  const found: readonly (readonly [readonly SessionInfo[], string])[] = [
    [asking, 'Run "savepoint answer <session>"'],
    [others, `Resume a LangGraph thread with ${ANSWER_THREAD}`],
    [sleeping, "A worker resumes them when their time comes"],
  ];
  for (const [group, advice] of found) {
    if (group.length > 0) yield { check: "waiting", state: "note", detail: listIds(group), advice };
  }
}

function listIds(infos: readonly SessionInfo[]): string {
  const ids = infos.slice(0, 3).map(({ id }) => id);
  const more = infos.length > 3 ? ` and ${infos.length - 3} more` : "";
  return `${ids.join(", ")}${more}`;
}
