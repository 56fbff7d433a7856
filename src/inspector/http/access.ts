/**
 * Access control. The attacks come from web pages in the browser of a user of the inspector: requests across origins, names that resolve to this machine (DNS rebinding), and frames.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { HttpError } from "./errors.js";

/** What is checked for each request. */
export interface AccessRules {
  /** The bearer token of the API. */
  readonly token: string | undefined;
  readonly authorize: ((request: Request) => boolean | Promise<boolean>) | undefined;
  /** The names of this server, without ports; `undefined` accepts all. */
  readonly hosts: readonly string[] | undefined;
  /** Origins that are accepted besides that of the request's own URL. */
  readonly origins: readonly string[];
}

/** Rejects a request that another web page may have sent. */
export function checkSource(request: Request, url: URL, rules: AccessRules): void {
  // The URL has the host too, but which of them the server trusted to build the URL is not known here.
  const host = request.headers.get("host") ?? url.host;
  if (rules.hosts && !(isListed(rules.hosts, host) && isListed(rules.hosts, url.host))) {
    throw forbidden("This name does not belong to the inspector. Open the URL that `savepoint ui` has printed.");
  }
  const origin = request.headers.get("origin");
  if (origin !== null && !isOwnOrigin(origin, host, rules.origins)) {
    throw forbidden("Requests of other web pages are refused. Behind a proxy, pass its origin in `origins`.");
  }
}

/** Rejects requests to the API that a browser sends for another web page, even if they have no `origin`. */
export function checkFetchSite(request: Request): void {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none" && request.headers.get("origin") === null) {
    throw forbidden("Requests of other web pages are refused.");
  }
}

/** Rejects a request without the token, or one that `authorize` refuses. */
export async function checkIdentity(request: Request, rules: AccessRules): Promise<void> {
  const { token, authorize } = rules;
  if (token !== undefined) {
    const header = request.headers.get("authorization") ?? "";
    if (!header.startsWith("Bearer ") || !equalsSecret(header.slice("Bearer ".length), token)) {
      throw new HttpError(
        401,
        "UNAUTHORIZED",
        "The token is missing or wrong. Open the URL that `savepoint ui` has printed.",
      );
    }
  }
  if (authorize && (await isAuthorized(authorize, request)) !== true) {
    throw new HttpError(401, "UNAUTHORIZED", "Sign in first: the server does not accept this request.");
  }
}

/** Calls `authorize`. Its error is a warning of the process: the client, which was not accepted, gets none of it. */
async function isAuthorized(authorize: NonNullable<AccessRules["authorize"]>, request: Request): Promise<boolean> {
  try {
    return await authorize(request);
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : new Error(String(error)));
    throw new HttpError(500, "UNEXPECTED", "`authorize` has thrown an error. The server has reported it as a warning.");
  }
}

/** Compares secrets in a time that depends on neither of them. */
export function equalsSecret(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}

export function forbidden(message: string): HttpError {
  return new HttpError(403, "FORBIDDEN", message);
}

/** Whether a host is one of these names. The port is ignored: a tunnel has another one, and an attacker controls only names. */
function isListed(hosts: readonly string[], host: string): boolean {
  const address = `http://${host}`;
  if (!/^[\w.:[\]-]+$/.test(host) || !URL.canParse(address)) return false;
  return hosts.includes(new URL(address).hostname);
}

/** Whether an origin is that of this server. The scheme is not compared: a proxy may have removed TLS. */
function isOwnOrigin(origin: string, host: string, origins: readonly string[]): boolean {
  if (origins.includes(origin)) return true;
  return (
    URL.canParse(origin) && /^https?:$/.test(new URL(origin).protocol) && new URL(origin).host === host.toLowerCase()
  );
}
