/** All routes of the API. To add one, add it to the list of its file. */
import type { Route } from "../http/router.js";
import type { Services } from "../services.js";
import { checkpointRoutes } from "./checkpoints.js";
import { editRoutes } from "./edits.js";
import { metaRoutes } from "./meta.js";
import { sessionRoutes } from "./sessions.js";

export function allRoutes(services: Services): readonly Route[] {
  return [...metaRoutes(services), ...sessionRoutes(services), ...checkpointRoutes(services), ...editRoutes(services)];
}
