/** Agents with their own states, and restoring checkpoints of agents and sessions. */
import { SavepointError, type RestorePlan } from "../../index.js";
import type {
  AgentCheckpointView,
  AgentDetail,
  AgentRow,
  Page,
  RestorePreview,
  RestoreRequest,
  RestoreResponse,
} from "../api.js";
import { boundJson } from "../data/bounded-json.js";
import { omitUndefined } from "../data/views.js";
import { readFields, string } from "../http/input.js";
import { toWire } from "../http/responses.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";
import { toChangeView } from "./checkpoints.js";

const MAX_PAGE = 500;
/** The characters of a config and of a state. */
const MAX_STATE = 262_144;
const MAX_CHANGES = 1000;

export function agentRoutes(services: Services): readonly Route[] {
  const { sp, pages } = services;
  return [
    {
      method: "GET",
      path: "/api/agents",
      query: ["cursor", "limit"],
      run: ({ query }): Promise<Page<AgentRow>> =>
        pages.page(
          "agents",
          query.text("cursor"),
          query.limit(MAX_PAGE, 100),
          () => sp.agents.list(),
          (info) => toWire(info) as unknown as AgentRow,
        ),
    },
    { method: "GET", path: "/api/agents/:id", run: (call) => readAgent(services, call) },
    {
      method: "GET",
      path: "/api/agents/:id/checkpoints",
      query: ["cursor", "limit"],
      run: ({ params: { id = "" }, query }): Promise<Page<AgentCheckpointView>> =>
        pages.page(
          JSON.stringify(["agent checkpoints", id]),
          query.text("cursor"),
          query.limit(MAX_PAGE, 100),
          () => sp.checkpoints.list({ agent: id, of: "agent" }),
          (info) => toWire(info) as unknown as AgentCheckpointView,
        ),
    },
    {
      method: "GET",
      path: "/api/restore",
      query: ["id"],
      run: async ({ query }) => toRestorePreview(await sp.checkpoints.restore(query.required("id"), { dryRun: true })),
    },
    { method: "POST", path: "/api/restore", write: true, run: (call) => restore(services, call) },
  ];
}

async function readAgent({ sp }: Services, { params: { id = "" } }: Call): Promise<AgentDetail> {
  const saved = await sp.agents.load<unknown>(id);
  if (!saved) throw new SavepointError("AGENT_NOT_FOUND", `There is no agent ${JSON.stringify(id)}.`);
  const { systemPrompt, config, state, activeConversations, skipped, ...info } = saved;
  const shown = boundJson(toWire(state), MAX_STATE);
  return omitUndefined({
    agent: toWire(info) as unknown as AgentRow,
    systemPrompt,
    config: boundJson(toWire(config), MAX_STATE).value,
    state: shown.value,
    isComplete: shown.isComplete,
    activeConversations,
    skipped,
  });
}

function toRestorePreview(plan: RestorePlan): RestorePreview {
  const { agent, sessionId, changes, restored, recreated, removed, erased } = plan;
  return omitUndefined({
    agent,
    session: sessionId,
    changes: changes.slice(0, MAX_CHANGES).map(toChangeView),
    changeCount: changes.length,
    restored: restored.slice(0, MAX_CHANGES),
    recreated: recreated.slice(0, MAX_CHANGES),
    removed: removed.slice(0, MAX_CHANGES),
    erased: erased.slice(0, MAX_CHANGES),
  });
}

async function restore(services: Services, { body }: Call): Promise<RestoreResponse> {
  const { id } = readFields<RestoreRequest>(await body(), { id: string });
  const { checkpoint, before, sessionId } = await services.sp.checkpoints.restore(id);
  if (sessionId !== undefined) await services.changed(sessionId);
  return {
    checkpoint: toWire(checkpoint) as unknown as AgentCheckpointView,
    before: toWire(before) as unknown as AgentCheckpointView,
  };
}
