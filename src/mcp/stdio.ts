/** Serving over standard input and output, which is how most clients start a server. */
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import type { Savepoint } from "../index.js";
import type { McpOptions } from "./options.js";
import { createTrackedServer } from "./server.js";

/** A message may be as large as a large state. The SDK's own bound, 10 MB, would end the connection. */
const MAX_MESSAGE = 256 * 2 ** 20;

/**
 * Serves one client over standard input and output, one that speaks the protocol of 2026 or an earlier one. Resolves
 * when the client has gone, or `options.signal` is aborted, and nothing that it asked for is under way any more. Then
 * close the store: this does not.
 */
export async function serveMcp(sp: Savepoint, options: McpOptions = {}): Promise<void> {
  const { signal, streams: { stdin, stdout, stderr } = process } = options;
  if (signal?.aborted) return;
  const underWay = new Set<Promise<unknown>>();
  const track = <T>(work: Promise<T>): Promise<T> => {
    const settled: Promise<unknown> = work
      .catch(() => {}) // Whoever asked is told.
      .finally(() => underWay.delete(settled));
    underWay.add(settled);
    return work;
  };
  const transport = new WatchedTransport(stdin, stdout, { maxBufferSize: MAX_MESSAGE });
  const server = serveStdio(() => createTrackedServer(sp, options, track), {
    transport,
    // Standard output is for the protocol alone.
    onerror: (error) => stderr.write(`savepoint mcp: ${error.message}\n`),
  });
  const stop = (): void => void server.close();
  signal?.addEventListener("abort", stop);
  try {
    await transport.closed;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
  while (underWay.size > 0) await Promise.all(underWay);
}

/** Says when it was closed, by whichever side. */
class WatchedTransport extends StdioServerTransport {
  readonly closed: Promise<void>;
  #resolve: () => void = () => {};

  constructor(...parameters: ConstructorParameters<typeof StdioServerTransport>) {
    super(...parameters);
    this.closed = new Promise((resolve) => (this.#resolve = resolve));
  }

  override async close(): Promise<void> {
    await super.close();
    this.#resolve();
  }
}
