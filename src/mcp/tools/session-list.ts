/** The tool that lists sessions. */
import { z } from "zod";
import type { SessionInfo, SessionListOptions } from "../../index.js";
import { omitUndefined } from "../omit-undefined.js";
import { NEXT_CURSOR, PAGE_ARGUMENTS, readPage } from "../paging.js";
import { projectOf } from "../project.js";
import { SESSION_INFO, toSessionInfo } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { AGENT, TIME_ARGUMENT, toDate } from "./arguments.js";
import { defineTool } from "./tool.js";

const STATUSES = ["open", "queued", "running", "waiting", "completed", "failed", "halted", "interrupted"] as const;

/** Arguments that select sessions. */
export const SESSION_FILTER = {
  project: z.enum(["current", "any"]).default("any").describe("current: only of your project."),
  agent: AGENT,
  status: z.enum(STATUSES).optional(),
  since: TIME_ARGUMENT.optional().describe("Only those saved since then."),
};

export type SessionFilter = z.output<z.ZodObject<typeof SESSION_FILTER>>;

export const sessionList = defineTool({
  name: "session_list",
  title: "List sessions",
  description:
    "Lists sessions without their states, most recently created first: status, project, when it was last saved, label, resume hint and open questions. Load one with session_resume.",
  input: z.strictObject({ ...SESSION_FILTER, ...PAGE_ARGUMENTS }),
  output: z.object({ sessions: z.array(SESSION_INFO), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run({ limit, cursor, ...filter }, scope) {
    const { entries, nextCursor } = await readPage(
      { name: ["session_list", filter], walk: () => walkSessions(scope, filter), show: toSessionInfo },
      { limit, cursor },
    );
    return { sessions: entries, nextCursor };
  },
});

/** The sessions in the scope that match, most recently created first. */
export async function* walkSessions(scope: AgentScope, filter: SessionFilter): AsyncGenerator<SessionInfo> {
  const { project, agent, status, since } = filter;
  const options = { ...scope.agentFilter(agent), ...omitUndefined({ status }) } as SessionListOptions;
  const from = toDate(since)?.getTime() ?? Number.NEGATIVE_INFINITY;
  for await (const info of scope.sp.sessions.list(options)) {
    const isOfProject = project === "any" || projectOf(info.head) === scope.project;
    if (isOfProject && info.updatedAt >= from && scope.owns(info.agent)) yield info;
  }
}
