/** Finds the route of a request by its path and its method. */
import { HttpError, notFound } from "./errors.js";
import { badRequest } from "./errors.js";
import { Query, readBody } from "./input.js";

/** A request to a route. */
export interface Call {
  readonly request: Request;
  /** The ids in the path, by name. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  /** Reads the body: at most once. */
  readonly body: () => Promise<Readonly<Record<string, unknown>>>;
}

/** A route of the API: it returns JSON, or a response of its own. */
export interface Route {
  readonly method: "GET" | "POST";
  /** Such as `/api/sessions/:id/history`. */
  readonly path: string;
  /** The names of the query parameters. */
  readonly query?: readonly string[];
  /** Whether it changes the store. */
  readonly write?: true;
  run(call: Call): Promise<unknown>;
}

interface Pattern {
  readonly route: Route;
  readonly segments: readonly string[];
}

export class Router {
  readonly #patterns: readonly Pattern[];

  constructor(routes: readonly Route[]) {
    this.#patterns = routes.map((route) => ({ route, segments: route.path.split("/").slice(1) }));
  }

  /** The route of a request, and what it is called with. Throws 404 and 405. */
  find(request: Request, path: string, parameters: URLSearchParams): { readonly route: Route; readonly call: Call } {
    const segments = path.split("/").slice(1);
    const matching = this.#patterns.filter((pattern) => matches(pattern, segments));
    if (matching.length === 0) throw notFound("There is nothing at this address. docs/inspector.md lists the routes.");
    const method = request.method === "HEAD" ? "GET" : request.method;
    const pattern = matching.find(({ route }) => route.method === method);
    if (!pattern) {
      const methods = [...new Set(matching.map(({ route }) => route.method))].join(" and ");
      throw new HttpError(405, "METHOD_NOT_ALLOWED", `This address supports ${methods}, not ${request.method}.`);
    }
    const { route } = pattern;
    const names = pattern.segments.flatMap((segment, index) =>
      segment.startsWith(":") ? [[segment.slice(1), decodeId(segments[index] ?? "")] as const] : [],
    );
    const params = Object.fromEntries(names);
    const query = new Query(parameters, route.query ?? []);
    return { route, call: { request, params, query, body: () => readBody(request) } };
  }
}

function matches({ segments: pattern }: Pattern, segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((segment, index) => (segment.startsWith(":") ? segments[index] !== "" : segment === segments[index]))
  );
}

/** The id in a segment of a path; see `encodeId` in `api.ts`. */
export function decodeId(segment: string): string {
  let id: string;
  try {
    id = decodeURIComponent(segment);
  } catch {
    throw badRequest(`${JSON.stringify(segment)} is not valid percent-encoding of UTF-8.`);
  }
  return id.startsWith("~") ? id.slice(1) : id;
}
