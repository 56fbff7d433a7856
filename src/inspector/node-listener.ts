/** Serves a handler of the Fetch API with `node:http`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";

/** A handler of `Request` and `Response`, such as that of `createInspector()`. */
export type FetchHandler = (request: Request) => Promise<Response> | Response;

/** A client that reads nothing for this long is disconnected, in milliseconds: what waits for it takes memory. */
const MAX_STALL = 60_000;

/**
 * Makes a listener for `http.createServer()` of a handler.
 *
 * @example
 * createServer(toNodeListener(createInspector(sp, { authorize }))).listen(4400, "127.0.0.1");
 */
export function toNodeListener(handler: FetchHandler): (message: IncomingMessage, response: ServerResponse) => void {
  return (message, response) => {
    serve(handler, message, response).catch((error: unknown) => {
      // The client has disconnected, or the headers are sent already.
      response.destroy(error as Error);
    });
  };
}

async function serve(handler: FetchHandler, message: IncomingMessage, response: ServerResponse): Promise<void> {
  const ended = new AbortController();
  response.on("close", () => ended.abort());
  const request = toRequest(message, ended.signal);
  if (!request) {
    response.writeHead(400, { "content-type": "text/plain" }).end("Bad request");
    return;
  }
  const { status, headers, body } = await handler(request);
  response.writeHead(status, toNodeHeaders(headers));
  if (!body) {
    response.end();
    return;
  }
  // Events are sent when they happen, also before the first one.
  response.flushHeaders();
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    if (response.destroyed) return;
    if (!response.write(chunk)) await drained(response);
  }
  response.end();
}

/** A host with anything else could contain a part of the path, and bypass a server in front that checks paths. */
const HOST = /^[\w.~%:[\]-]+$/;

/** The request of a message; `undefined` if its address or its host is not a valid URL. */
function toRequest(message: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { method = "GET", url = "/", headers, socket } = message;
  const scheme = "encrypted" in socket ? "https" : "http";
  // An address such as "//evil.example/" would be read as a host.
  const { host = "localhost" } = headers;
  const address = `${scheme}://${host}${url.startsWith("/") ? url : "/"}`;
  if (!HOST.test(host) || !URL.canParse(address)) return undefined;
  const fields = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || name.startsWith(":")) continue;
    for (const each of Array.isArray(value) ? value : [value]) fields.append(name, each);
  }
  const hasBody = method !== "GET" && method !== "HEAD";
  try {
    return new Request(address, {
      method,
      headers: fields,
      signal,
      ...(hasBody && { body: Readable.toWeb(message) as ReadableStream<Uint8Array>, duplex: "half" }),
    });
  } catch {
    // The method is one that requests cannot have, such as TRACE.
    return undefined;
  }
}

function toNodeHeaders(headers: Headers): Record<string, string | string[]> {
  const cookies = headers.getSetCookie();
  return { ...Object.fromEntries(headers), ...(cookies.length > 0 && { "set-cookie": cookies }) };
}

/** Resolves when the client can be sent more, or has gone. */
async function drained(response: ServerResponse): Promise<void> {
  const timer = setTimeout(() => response.destroy(), MAX_STALL);
  timer.unref();
  await new Promise<void>((resolve) => {
    const finish = (): void => {
      response.off("drain", finish);
      response.off("close", finish);
      resolve();
    };
    response.once("drain", finish);
    response.once("close", finish);
  });
  clearTimeout(timer);
}
