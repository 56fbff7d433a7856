/** An inspector of a store with real data, and clients of it. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect } from "vitest";
import { type OpenOptions, Savepoint } from "../../src/index.js";
import { createInspector, type Inspector, type InspectorOptions, toNodeListener } from "../../src/inspector/index.js";
import { QUIET } from "../damage/world.js";

export const TOKEN = "0123456789abcdef0123456789abcdef";

/** What a test opens is closed when the test ends. */
const closing: (() => unknown)[] = [];

/** Closes after each test of the file what the test has opened. Files share this module, so each of them must call it. */
export function useCleanup(): void {
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
}

/** Calls a function when the test ends. */
export function atEnd(close: () => unknown): void {
  closing.push(close);
}

/** A folder that is removed when the test ends. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-inspector-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Opens a store; by default a new one in memory. */
export async function open(url = "memory:", options: OpenOptions = {}): Promise<Savepoint> {
  const sp = await Savepoint.open(url, { on: { ...QUIET, runError: () => {} }, ...options });
  atEnd(() => sp.close());
  return sp;
}

/** A client of an inspector: requests are those of the page, with the token. */
export class Client {
  readonly inspector: Inspector;
  readonly #origin: string;

  constructor(sp: Savepoint, options: Partial<InspectorOptions> = {}) {
    this.#origin = `http://127.0.0.1:4400${options.basePath ?? ""}`;
    this.inspector = createInspector(sp, options.authorize ? options : { token: TOKEN, ...options });
    atEnd(() => this.inspector.close());
  }

  /** Sends a request. */
  send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers({ authorization: `Bearer ${TOKEN}`, ...(init.headers as Record<string, string>) });
    for (const name of Array.from(headers.keys())) if (headers.get(name) === "none") headers.delete(name);
    return this.inspector(new Request(`${this.#origin}${path}`, { ...init, headers }));
  }

  /** The JSON of a successful response. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests check its shape
  async get<T = any>(path: string): Promise<T> {
    return (await this.#ok(await this.send(path), path)) as T;
  }

  /** Sends JSON, and returns the JSON of a successful response. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests check its shape
  async post<T = any>(path: string, body: unknown): Promise<T> {
    return (await this.#ok(await this.sendJson(path, body), path)) as T;
  }

  sendJson(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const type = { "content-type": "application/json", ...headers };
    return this.send(path, { method: "POST", headers: type, body: JSON.stringify(body) });
  }

  /** The status and the code of a request that must fail. */
  async fail(path: string, init: RequestInit = {}): Promise<string> {
    return describeFailure(await this.send(path, init));
  }

  /** The status and the code of a write that must fail. */
  async failPost(path: string, body: unknown): Promise<string> {
    return describeFailure(await this.sendJson(path, body));
  }

  async #ok(response: Response, path: string): Promise<unknown> {
    const text = await response.text();
    expect(response.status, `${path}: ${text}`).toBe(200);
    return JSON.parse(text) as unknown;
  }
}

/** Such as `403 READ_ONLY`. */
export async function describeFailure(response: Response): Promise<string> {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  expect(error.message.length).toBeGreaterThan(10);
  return `${response.status} ${error.code}`;
}

/** Serves an inspector over HTTP. Returns its port. */
export async function serve(inspector: Inspector): Promise<number> {
  const server: Server = createServer(toNodeListener(inspector));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

/** Sends a request with any headers, also those that `fetch` does not let callers set. */
export function rawRequest(
  port: number,
  path: string,
  headers: Record<string, string> = {},
  method = "GET",
  body?: string,
): Promise<{ readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1", path, method, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
