/** The web server of `savepoint ui`. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname, networkInterfaces } from "node:os";
import type { Savepoint } from "../index.js";
import { createInspector, toNodeListener } from "../inspector/index.js";
import { usageError } from "./errors.js";

/** The port if no other port was requested and this one is free. */
const DEFAULT_PORT = 7433;
/** How long {@link UiServer.openUrl} is valid, in milliseconds. */
const CODE_LIFETIME = 120_000;
/** A client that sends a request more slowly than this is cut off, in milliseconds. */
const REQUEST_TIMEOUT = 60_000;

export interface UiServerOptions {
  readonly port: number | undefined;
  readonly host: string;
  /** Additional names under which the server is reached. */
  readonly names: readonly string[];
  readonly write: boolean;
}

export interface UiServer {
  /** The URL of the page, with the token. */
  readonly url: string;
  /**
   * A URL that opens the page once. It is passed to the program that opens the browser, whose
   * arguments other users of the machine can see.
   */
  readonly openUrl: string;
  close(): Promise<void>;
}

/** Starts the server. */
export async function startUiServer(sp: Savepoint, options: UiServerOptions): Promise<UiServer> {
  const { host, names, write } = options;
  const token = randomBytes(32).toString("base64url");
  const inspector = createInspector(sp, { token, write, hosts: [...namesOf(host), ...names] });
  const listener = toNodeListener(inspector);
  const code = new OneTimeCode();
  const server = createServer((request, response) => {
    if (!code.redirect(request, response, token)) listener(request, response);
  });
  server.requestTimeout = REQUEST_TIMEOUT;
  await listen(server, options);
  const { address, port } = server.address() as AddressInfo;
  const origin = `http://${hostOf(address, host)}:${port}`;
  return {
    url: `${origin}/#token=${token}`,
    openUrl: `${origin}${code.path}`,
    async close() {
      await inspector.close();
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** A path that redirects to the page with the token, once and only for a short time. */
class OneTimeCode {
  readonly path = `/open/${randomBytes(32).toString("base64url")}`;
  readonly #until = Date.now() + CODE_LIFETIME;
  #isUsed = false;

  /** Responds to a request for the path. Returns `false` for all others. */
  redirect({ url, method }: IncomingMessage, response: ServerResponse, token: string): boolean {
    if (url !== this.path || method !== "GET" || this.#isUsed || Date.now() > this.#until) return false;
    this.#isUsed = true;
    response.writeHead(302, {
      location: `/#token=${token}`,
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
    });
    response.end();
    return true;
  }
}

async function listen(server: Server, { port, host }: UiServerOptions): Promise<void> {
  try {
    server.listen(port ?? DEFAULT_PORT, host);
    await once(server, "listening");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE" && port === undefined) {
      server.listen(0, host);
      await once(server, "listening");
      return;
    }
    if (code === "EADDRINUSE")
      throw usageError(`Port ${port} is in use. Pass another --port, or --port 0 for any.`, error);
    if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
      throw usageError(`${JSON.stringify(host)} is not an address of this machine. Pass another --host.`, error);
    }
    throw error;
  }
}

/** The names under which a server that listens on this address is reached. */
function namesOf(host: string): string[] {
  const local = ["127.0.0.1", "localhost", "[::1]"];
  if (host !== "0.0.0.0" && host !== "::") return [...local, host.includes(":") ? `[${host}]` : host];
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return [
    ...local,
    hostname(),
    ...addresses.map(({ address, family }) => (family === "IPv6" ? `[${address}]` : address)),
  ];
}

/** The host in the URL that is printed. */
function hostOf(address: string, host: string): string {
  if (address === "0.0.0.0" || address === "::") return hostname();
  if (host === "localhost") return "localhost";
  return address.includes(":") ? `[${address}]` : address;
}
