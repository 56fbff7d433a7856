import { statfs } from "node:fs/promises";
import { arch, platform } from "node:os";
import { dirname } from "node:path";
import { isSavepointError, type Savepoint, type SessionInfo } from "../../index.js";
import type { Cli } from "../cli.js";
import { EXIT, exitCodeForError, type ExitCode } from "../exit-codes.js";
import { storePath } from "../store-path.js";
import { formatBytes, sanitize, formatCount } from "../terminal-text.js";
import { version } from "../version.js";
import { defineVerb } from "../verb.js";

/** One thing that was looked at. */
interface Finding {
  readonly check: string;
  readonly state: "ok" | "note" | "problem";
  readonly detail: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** Sessions and checkpoints that are looked at. */
const SESSIONS = 5000;
const CHECKPOINTS = 2000;
const LITTLE_SPACE = 200e6;

export const doctor = defineVerb({
  name: "doctor",
  group: "Set up",
  summary: "look whether everything is as it should be, and say what to do if not",
  examples: [
    ["savepoint doctor", "after a crash, or before asking for help"],
    ["savepoint doctor --json", "for a monitor; the exit code says it too"],
  ],
  declare() {},
  async run(cli) {
    const findings: Finding[] = [];
    let code: ExitCode = EXIT.ok;
    for await (const finding of examine(cli, (exit) => (code = exit))) findings.push(finding);
    const { colors } = cli.output;
    const marks = { ok: colors.green("ok"), note: colors.yellow("note"), problem: colors.red("problem") };
    await cli.output.list(findings, {
      columns: [{ title: "CHECK" }, { title: "" }, { title: "" }],
      row: ({ check, state, detail, advice }) => [
        check,
        marks[state],
        sanitize(advice === undefined ? detail : `${detail}. ${advice}`),
      ],
      empty: "",
    });
    if (code === EXIT.ok && findings.some(({ state }) => state === "problem")) return EXIT.failed;
    return code;
  },
});

async function* examine(cli: Cli, exit: (code: ExitCode) => void): AsyncGenerator<Finding> {
  yield {
    check: "savepoint",
    state: "ok",
    detail: `${version()} on Node ${cli.io.node.version}, ${platform()} ${arch()}`,
  };
  yield await checkSqlite();
  let sp: Savepoint;
  try {
    sp = await cli.open();
  } catch (error) {
    if (!isSavepointError(error)) throw error;
    exit(exitCodeForError(error.code));
    const advice = error.code === "STORE_NOT_FOUND" ? 'Run "savepoint init", or say --store' : undefined;
    yield { check: "store", state: "problem", detail: error.message, ...(advice && { advice }) };
    return;
  }
  const stats = await sp.stats();
  yield {
    check: "store",
    state: "ok",
    detail: `${sp.url}, ${formatCount(stats.sessions, "session")}, ${formatCount(stats.checkpoints, "checkpoint")}, ${formatBytes(stats.bytes)}`,
  };
  yield* checkSpace(sp.url);
  yield checkShutdown(sp);
  yield* checkSessions(sp);
  const report = await sp.verify({ sample: Math.min(1, CHECKPOINTS / Math.max(1, stats.checkpoints)) });
  if (report.ok)
    yield {
      check: "damage",
      state: "ok",
      detail: `none in ${formatCount(report.checkpoints, "checkpoint")} that were looked at`,
    };
  else {
    exit(EXIT.damage);
    const advice = "savepoint verify --deep says more, savepoint repair --from ./backups brings it back";
    yield {
      check: "damage",
      state: "problem",
      detail: `${formatCount(report.problems.length, "problem")}: ${report.problems[0]?.reason ?? ""}`,
      advice,
    };
  }
}

async function checkSqlite(): Promise<Finding> {
  const { Savepoint } = await import("../../index.js");
  try {
    const memory = await Savepoint.open("sqlite::memory:");
    await memory.close();
    return { check: "sqlite", state: "ok", detail: "the driver works" };
  } catch (error) {
    return { check: "sqlite", state: "problem", detail: (error as Error).message };
  }
}

async function* checkSpace(url: string): AsyncGenerator<Finding> {
  const path = storePath(url);
  if (path === undefined) return;
  const { bavail, bsize } = await statfs(dirname(path));
  const free = bavail * bsize;
  const state = free < LITTLE_SPACE ? "problem" : "ok";
  yield {
    check: "disk",
    state,
    detail: `${formatBytes(free)} free`,
    ...(state === "problem" && { advice: "Make room: saves will fail" }),
  };
}

function checkShutdown({ lastShutdown }: Savepoint): Finding {
  const { clean: isClean, processes, interrupted } = lastShutdown;
  if (isClean) return { check: "shutdown", state: "ok", detail: "all who had it open have closed it" };
  const who = processes.map(({ pid, host }) => `process ${pid} on ${host}`).join(", ");
  const what = interrupted.length > 0 ? `, which interrupted ${formatCount(interrupted.length, "run")}` : "";
  return {
    check: "shutdown",
    state: "note",
    detail: `${who} ended without closing it${what}`,
    advice: "savepoint recover --agents ./agents.mjs goes on",
  };
}

async function* checkSessions(sp: Savepoint): AsyncGenerator<Finding> {
  const found = new Map<string, SessionInfo[]>();
  let looked = 0;
  for await (const info of sp.sessions.list({ limit: SESSIONS })) {
    looked++;
    found.set(info.status, [...(found.get(info.status) ?? []), info]);
  }
  const all = [...found].map(([status, infos]) => `${infos.length} ${status}`).join(", ");
  yield {
    check: "sessions",
    state: "ok",
    detail: looked === 0 ? "none yet" : `${all}${looked === SESSIONS ? " among the newest" : ""}`,
  };
  const advice = {
    interrupted: "savepoint recover --agents ./agents.mjs goes on",
    waiting: "savepoint answer tells those what they ask that ask something",
    failed: "savepoint sessions --status failed says why",
    halted: "savepoint sessions --status halted says why",
  };
  for (const [status, what] of Object.entries(advice)) {
    const infos = found.get(status) ?? [];
    if (infos.length > 0) yield { check: status, state: "note", detail: names(infos), advice: what };
  }
}

function names(infos: readonly SessionInfo[]): string {
  const more = infos.length > 3 ? ` and ${infos.length - 3} more` : "";
  return `${infos
    .slice(0, 3)
    .map(({ id }) => id)
    .join(", ")}${more}`;
}
