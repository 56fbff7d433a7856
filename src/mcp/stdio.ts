/** Serves over standard input and output, the transport with which most clients start a server. */
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import type { Savepoint } from "../index.js";
import { MAX_INPUT_MEGABYTES } from "./input-size.js";
import { createTrackedServer, type McpOptions } from "./server.js";
import { selectTools } from "./tools/catalog.js";

/**
 * The largest message, in bytes. A larger one ends the connection. Arguments that are too large should only fail the call, so
 * this limit is higher than theirs. The SDK's default of 10 MB would end the connection for a large state.
 */
const MAX_MESSAGE_BYTES = 4 * MAX_INPUT_MEGABYTES * 1e6;

/**
 * Serves one client over standard input and output. Supports the 2026 protocol and earlier versions. Resolves when the
 * client has disconnected or `options.signal` is aborted, and all requests in progress have ended. It does not close the
 * store: do that afterwards.
 * @throws `INVALID_ARGUMENT` for an unknown name in `options.tools`
 * @example
 * const sp = await Savepoint.open("sqlite:./agents.db");
 * await serveMcp(sp, { write: true, agent: "support" });
 * await sp.close();
 */
export async function serveMcp(sp: Savepoint, options: McpOptions = {}): Promise<void> {
  const { signal, streams: { stdin, stdout, stderr } = process } = options;
  // The server itself is created when the client has said which protocol it speaks.
  selectTools(options.tools);
  if (signal?.aborted) return;
  const inProgress = new Set<Promise<unknown>>();
  const track = <T>(work: Promise<T>): Promise<T> => {
    const settled: Promise<unknown> = work
      .catch(() => {}) // The request reports the error.
      .finally(() => inProgress.delete(settled));
    inProgress.add(settled);
    return work;
  };
  const transport = new ClosableTransport(stdin, stdout, { maxBufferSize: MAX_MESSAGE_BYTES });
  const server = serveStdio(() => createTrackedServer(sp, options, track), {
    transport,
    // Standard output is reserved for the protocol.
    onerror: (error) => stderr.write(`savepoint mcp: ${error.message}\n`),
  });
  const stop = (): void => void server.close();
  signal?.addEventListener("abort", stop);
  try {
    await transport.closed;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
  while (inProgress.size > 0) await Promise.all(inProgress);
}

/** A transport with a promise for its end, whichever side closes it. */
class ClosableTransport extends StdioServerTransport {
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
