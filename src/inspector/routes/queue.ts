/** Questions, workers and the queue. */
import type { QueueState } from "../../index.js";
import type { QuestionPage, QueuePage, WorkerPage } from "../api.js";
import type { Call, Route } from "../http/router.js";
import type { Services } from "../services.js";

const MAX_PAGE = 1000;
const STATES: readonly QueueState[] = ["queued", "scheduled", "waiting", "interrupted", "quarantined"];

export function queueRoutes(services: Services): readonly Route[] {
  const { work } = services;
  return [
    {
      method: "GET",
      path: "/api/questions",
      query: ["offset", "limit"],
      async run({ query }): Promise<QuestionPage> {
        const asking = await work.questions.get();
        const { offset, limit } = pageOf(query);
        return { entries: asking.slice(offset, offset + limit), total: asking.length };
      },
    },
    {
      method: "GET",
      path: "/api/workers",
      run: async (): Promise<WorkerPage> => ({ workers: await work.workers.get(), now: Date.now() }),
    },
    {
      method: "GET",
      path: "/api/queue",
      query: ["state", "agent", "offset", "limit"],
      run: (call) => listQueue(services, call),
    },
  ];
}

async function listQueue({ work }: Services, { query }: Call): Promise<QueuePage> {
  const [state, agent] = [query.oneOf("state", STATES), query.text("agent")];
  const { offset, limit } = pageOf(query);
  const { entries, states } = await work.queue.get();
  const matching = entries.filter(
    (entry) => (state === undefined || entry.state === state) && (agent === undefined || entry.agent === agent),
  );
  const page = matching.slice(offset, offset + limit);
  return { entries: page, offset, matches: matching.length, states, now: Date.now() };
}

function pageOf(query: Call["query"]): { readonly offset: number; readonly limit: number } {
  return { offset: query.count("offset", Number.MAX_SAFE_INTEGER) ?? 0, limit: query.limit(MAX_PAGE, 100) };
}
