/** Live events. */
import { badRequest } from "../http/errors.js";
import { SECURITY_HEADERS } from "../http/responses.js";
import type { Route } from "../http/router.js";
import type { Services } from "../services.js";

const MAX_TOPICS = 20;

export function eventRoutes({ live }: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/events",
      query: ["topics"],
      async run({ request, query }) {
        const topics = [...new Set(query.required("topics").split(","))];
        if (topics.length > MAX_TOPICS) throw badRequest(`A stream has at most ${MAX_TOPICS} topics.`);
        if (request.method === "HEAD") return new Response(null, { headers: SECURITY_HEADERS });
        const lastId = request.headers.get("last-event-id") || undefined;
        return live.connect(topics, lastId, request.signal);
      },
    },
  ];
}
