/** A stream of server-sent events to one client. */
import { SECURITY_HEADERS } from "./responses.js";

/** How often a comment is sent, so that both sides notice a broken connection, in milliseconds. */
const HEARTBEAT = 15_000;
/** The most events that wait for a slow client. Then it is disconnected, and reconnects when it can. */
const MAX_WAITING = 1000;

export class EventStream {
  readonly #encoder = new TextEncoder();
  readonly #onClose: () => void;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #body: ReadableStream<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  /** @param onClose called once, when the client has disconnected or the stream was closed */
  constructor(signal: AbortSignal, onClose: () => void) {
    this.#onClose = onClose;
    this.#body = new ReadableStream<Uint8Array>(
      { start: (controller) => void (this.#controller = controller), cancel: () => this.close() },
      { highWaterMark: MAX_WAITING },
    );
    this.#heartbeat = setInterval(() => this.#write(":\n\n"), HEARTBEAT).unref();
    // The caller does not have the stream yet.
    if (signal.aborted) queueMicrotask(() => this.close());
    else signal.addEventListener("abort", () => this.close(), { once: true });
  }

  get response(): Response {
    return new Response(this.#body, {
      headers: {
        ...SECURITY_HEADERS,
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        // Proxies such as nginx pass events on at once.
        "x-accel-buffering": "no",
      },
    });
  }

  /** Sends an event. @param data JSON, which has no line breaks */
  send(id: string, event: string, data: string): void {
    this.#write(`id: ${id}\nevent: ${event}\ndata: ${data}\n\n`);
  }

  /** Ends the stream. */
  close(): void {
    const controller = this.#controller;
    if (!controller) return;
    this.#controller = undefined;
    clearInterval(this.#heartbeat);
    try {
      controller.close();
    } catch {
      // The client has cancelled the stream, which closed it.
    }
    this.#onClose();
  }

  #write(text: string): void {
    if (!this.#controller) return;
    if ((this.#controller.desiredSize ?? 0) <= 0) return this.close();
    this.#controller.enqueue(this.#encoder.encode(text));
  }
}
