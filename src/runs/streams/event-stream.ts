/** The deltas of a run as server-sent events. */
import type { StreamEvent } from "./cursor.js";
import type { StreamEnd } from "./follow.js";

/** Options of {@link toEventStream}. */
export interface EventStreamOptions {
  /**
   * Send a comment after this many milliseconds without an event, so that proxies do not close the connection; 0 for none.
   * @default 15,000
   */
  readonly keepAlive?: number;
}

/**
 * Deltas as server-sent events: `event: delta` with `{ name, delta }` as JSON data and an id, `event: reset`, and at last
 * `event: end` with `{ status, reason }`. Big integers become strings, maps and sets become arrays. A browser that reconnects sends the last id as the header `Last-Event-ID`; pass it as
 * `after`. When the reader cancels, the iteration ends.
 *
 * @example
 * const after = request.headers.get("last-event-id") ?? undefined;
 * return new Response(toEventStream(sp.stream(session, { after })), { headers: { "content-type": "text/event-stream" } });
 */
export function toEventStream(
  events: AsyncGenerator<StreamEvent, StreamEnd>,
  { keepAlive = 15_000 }: EventStreamOptions = {},
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => clearInterval(timer);
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (keepAlive <= 0) return;
        timer = setInterval(() => {
          // A reader that has not read the last comment gets no further one.
          if ((controller.desiredSize ?? -1) >= 0) controller.enqueue(encoder.encode(": waiting\n\n"));
        }, keepAlive);
        timer.unref();
      },
      async pull(controller) {
        try {
          const { done, value } = await events.next();
          controller.enqueue(encoder.encode(done ? formatEnd(value) : formatEvent(value)));
          if (!done) return;
          stop();
          controller.close();
        } catch (error) {
          stop();
          controller.error(error);
        }
      },
      async cancel() {
        stop();
        await events.return({ status: "running", reason: undefined });
      },
    },
    { highWaterMark: 0 },
  );
}

function formatEvent(event: StreamEvent): string {
  const data = event.type === "delta" ? { name: event.name, delta: event.delta } : {};
  return `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(data, toJson)}\n\n`;
}

/** Deltas can contain all values that a state can contain, not only JSON. */
function toJson(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (value instanceof Map) return [...value];
  return value instanceof Set ? [...value] : value;
}

/** With an empty id, so that a browser that reconnects gets the next turn from its beginning. */
function formatEnd({ status, reason }: StreamEnd): string {
  return `id:\nevent: end\ndata: ${JSON.stringify({ status, reason })}\n\n`;
}
