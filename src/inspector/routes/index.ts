/** All routes of the API. To add one, add it to the list of its file. */
import type { Route } from "../http/router.js";
import type { Services } from "../services.js";
import { agentRoutes } from "./agents.js";
import { checkpointRoutes } from "./checkpoints.js";
import { conversationRoutes } from "./conversations.js";
import { editRoutes } from "./edits.js";
import { eventRoutes } from "./events.js";
import { journalRoutes } from "./journal.js";
import { messageRoutes } from "./messages.js";
import { metaRoutes } from "./meta.js";
import { queueRoutes } from "./queue.js";
import { runRoutes } from "./runs.js";
import { searchRoutes } from "./search.js";
import { sessionRoutes } from "./sessions.js";
import { storeRoutes } from "./store.js";

export function allRoutes(services: Services): readonly Route[] {
  return [
    metaRoutes,
    sessionRoutes,
    checkpointRoutes,
    messageRoutes,
    journalRoutes,
    editRoutes,
    runRoutes,
    queueRoutes,
    conversationRoutes,
    agentRoutes,
    searchRoutes,
    storeRoutes,
    eventRoutes,
  ].flatMap((routesOf) => routesOf(services));
}
