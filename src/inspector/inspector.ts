/** The handler of the inspector: checks who sends a request, and finds the route or the file. */
import type { Savepoint } from "../index.js";
import { checkFetchSite, checkIdentity, checkSource } from "./http/access.js";
import { HttpError } from "./http/errors.js";
import { errorResponse, jsonResponse } from "./http/responses.js";
import { Router } from "./http/router.js";
import { type InspectorOptions, type InspectorSettings, parseInspectorOptions } from "./options.js";
import { PageServer } from "./page-server.js";
import { allRoutes } from "./routes/index.js";
import { Services } from "./services.js";

/** A handler of the Fetch API, with a method that ends its background work. */
export interface Inspector {
  (request: Request): Promise<Response>;
  /** Ends the streams of all clients, and all reading in the background. It does not close the store. */
  close(): Promise<void>;
}

/**
 * Creates the inspector of a store: a web page and the JSON API that it uses, for any server of `Request` and `Response`. It
 * shows everything in the store, so `authorize` (or a `token`) is required; it changes nothing without `write: true`.
 *
 * Mount it at `basePath` and everything below. It reads the store only while it is used. Close it before the store.
 *
 * @example
 * const inspector = createInspector(sp, { basePath: "/agents", authorize: (request) => isAdmin(request) });
 * app.all("/agents/*", (c) => inspector(c.req.raw)); // Hono
 */
export function createInspector(sp: Savepoint, options: InspectorOptions): Inspector {
  const settings = parseInspectorOptions(options);
  const services = new Services(sp, settings);
  const router = new Router(allRoutes(services));
  const page = new PageServer(settings.basePath);
  const handle = async (request: Request): Promise<Response> => {
    try {
      return await respond(request, settings, router, page);
    } catch (error) {
      const isUnauthorized = error instanceof HttpError && error.status === 401 && settings.token !== undefined;
      return errorResponse(error, isUnauthorized ? { "www-authenticate": "Bearer" } : {});
    }
  };
  return Object.assign(handle, { close: () => services.close() });
}

async function respond(
  request: Request,
  settings: InspectorSettings,
  router: Router,
  page: PageServer,
): Promise<Response> {
  const url = new URL(request.url);
  checkSource(request, url, settings);
  const path = pathBelow(url.pathname, settings.basePath);
  if (!path.startsWith("/api/") && path !== "/api") {
    // With a token, the page is public: it has no data, and its script reads the token.
    if (settings.authorize) await checkIdentity(request, { ...settings, token: undefined });
    return page.respond(request, path);
  }
  checkFetchSite(request);
  await checkIdentity(request, settings);
  const { route, call } = router.find(request, path, url.searchParams);
  if (route.write && !settings.write) {
    const message = "This inspector is read-only: start it with --write, or create it with `write: true`.";
    throw new HttpError(403, "READ_ONLY", message);
  }
  const result = await route.run(call);
  if (result instanceof Response) return result;
  return jsonResponse(result);
}

/** The path below the base path. */
function pathBelow(path: string, basePath: string): string {
  if (basePath === "") return path;
  if (path === basePath) return "/";
  if (path.startsWith(`${basePath}/`)) return path.slice(basePath.length);
  throw new HttpError(404, "NOT_FOUND", `The inspector is mounted at ${basePath}.`);
}
