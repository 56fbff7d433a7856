/** The options of the inspector. */
import { badRequest } from "./http/errors.js";

/** Options of `createInspector()`. */
export interface InspectorOptions {
  /**
   * Where the inspector is mounted, such as `"/admin/agents"`.
   * @default the root of the server
   */
  readonly basePath?: string;
  /**
   * Decides whether a request is accepted, for a server with its own sign-in. It is called for the page and for the API.
   * Required, unless there is a `token`.
   */
  readonly authorize?: (request: Request) => boolean | Promise<boolean>;
  /**
   * A secret that each request to the API must have as a bearer token. The page itself, which contains no data, is served
   * without it, and takes the token from the fragment of its URL: `/#token=…`.
   */
  readonly token?: string;
  /**
   * Accept requests that change the store.
   * @default false
   */
  readonly write?: boolean;
  /**
   * The names under which the server is reached, without ports, such as `"127.0.0.1"`. Requests for any other host are refused:
   * protection from DNS rebinding for servers without TLS.
   * @default all
   */
  readonly hosts?: readonly string[];
  /** Origins that are accepted besides the server's own, such as `"https://ops.example.com"` of a proxy that changes the host. */
  readonly origins?: readonly string[];
}

/** Options that were validated. */
export interface InspectorSettings {
  /** Empty, or with a slash at the beginning and none at the end. */
  readonly basePath: string;
  readonly authorize: InspectorOptions["authorize"];
  readonly token: string | undefined;
  readonly write: boolean;
  readonly hosts: readonly string[] | undefined;
  readonly origins: readonly string[];
}

const FIELDS: ReadonlySet<string> = new Set(["basePath", "authorize", "token", "write", "hosts", "origins"]);
/** A token that is shorter can be guessed. */
const MIN_TOKEN = 16;

export function parseInspectorOptions(options: InspectorOptions): InspectorSettings {
  for (const name of Object.keys(options)) {
    if (!FIELDS.has(name)) throw badRequest(`The inspector has no option ${JSON.stringify(name)}.`);
  }
  const { basePath = "", authorize, token, write = false, hosts, origins = [] } = options;
  if (authorize === undefined && token === undefined) {
    throw badRequest("Pass `authorize`, which decides who may use the inspector: it shows everything in the store.");
  }
  if (authorize !== undefined && typeof authorize !== "function") throw badRequest("`authorize` must be a function.");
  if (token !== undefined && (typeof token !== "string" || token.length < MIN_TOKEN)) {
    throw badRequest(`\`token\` must be a string of at least ${MIN_TOKEN} characters.`);
  }
  if (typeof write !== "boolean") throw badRequest("`write` must be true or false.");
  if (typeof basePath !== "string" || !/^(\/[\w.~-]+)*\/?$/.test(basePath)) {
    throw badRequest(`\`basePath\` must be a path such as "/inspector", got ${JSON.stringify(basePath)}.`);
  }
  for (const origin of origins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw badRequest(`\`origins\` must be origins such as "https://ops.example.com", got ${JSON.stringify(origin)}.`);
    }
  }
  return {
    basePath: basePath.replace(/\/$/, ""),
    authorize,
    token,
    write,
    hosts: hosts?.map((host) => host.toLowerCase()),
    origins,
  };
}
