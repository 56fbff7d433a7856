/**
 * Models whose replies are recorded, and replayed when an interrupted turn is started again.
 *
 * The SDK gets a reply after the reply is durable, unless its only use is to execute wrapped tools. It gets the events of a stream while the reply is recorded, but the last one, with
 * which the SDK acts on the reply, only after the reply is durable.
 */
import { AsyncResource } from "node:async_hooks";
import type {
  Model,
  ModelProvider,
  ModelRequest,
  ModelResponse,
  StreamEvent,
  StreamEventResponseCompleted,
} from "@openai/agents-core";
import { recordResponse, recordStream, type RecordedReply, toEvents, toResponse } from "./reply.js";
import { anySignal, type Sdk } from "./sdk.js";
import { nestedRuns, type Turn } from "./turn.js";

/** The data that all models of a turn share. */
export interface ModelContext {
  readonly turn: Turn;
  readonly sdk: Sdk;
  /** Whether their calls do not belong to the conversation. */
  readonly aside: boolean;
}

/** Wraps a model so that its replies are recorded. The wrapped model keeps all other properties. */
export function wrapModel(model: Model, agent: string | undefined, context: ModelContext): Model {
  const getResponse = (request: ModelRequest): Promise<ModelResponse> =>
    respond(model, nameOf(agent), context, request);
  const getStreamedResponse = (request: ModelRequest): AsyncIterable<StreamEvent> =>
    stream(model, nameOf(agent), context, request);
  return new Proxy(model, {
    get(target, property) {
      if (property === "getResponse") return getResponse;
      if (property === "getStreamedResponse") return getStreamedResponse;
      // `this` must be the model and not the proxy, because the model may have private fields.
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

/** A provider whose models are recorded: for nested runs, which find their models by name. */
export function wrapProvider(provider: ModelProvider, context: ModelContext): ModelProvider {
  return { getModel: async (name) => wrapModel(await provider.getModel(name), undefined, context) };
}

/** The name under which a model is recorded. A model of a provider does not know its agent. */
function nameOf(agent: string | undefined): string {
  return agent ?? nestedRuns.getStore()?.agent ?? "model";
}

async function respond(
  model: Model,
  agent: string,
  { turn, sdk, aside }: ModelContext,
  request: ModelRequest,
): Promise<ModelResponse> {
  let live: ModelResponse | undefined;
  const recorded = await turn.callModel({ agent, aside, early: true }, request, async (signal) => {
    live = await model.getResponse({ ...request, signal: anySignal(signal, request.signal) });
    return recordResponse(live);
  });
  await turn.flushVisible(recorded.output);
  return live ?? toResponse(recorded, sdk);
}

/** Yields the events of a model while its reply is recorded, or those of a recorded reply. */
async function* stream(
  model: Model,
  agent: string,
  { turn, aside }: ModelContext,
  request: ModelRequest,
): AsyncGenerator<StreamEvent> {
  const stopped = new AbortController();
  const events = new EventQueue();
  let last: StreamEventResponseCompleted | undefined;
  const record = async (signal: AbortSignal): Promise<RecordedReply> => {
    const given = { ...request, signal: anySignal(signal, request.signal, stopped.signal) };
    for await (const event of model.getStreamedResponse(given)) {
      stopped.signal.throwIfAborted();
      if (event.type === "response_done") last = event;
      else events.push(event);
    }
    if (!last) throw new Error("The stream of the model has ended without a response.");
    return recordStream(last);
  };
  const recorded = turn.callModel({ agent, aside, early: false }, request, record);
  recorded.then(events.end, events.end);
  let isRead = false;
  try {
    yield* events.read();
    const reply = await recorded;
    if (last) yield last;
    else yield* toEvents(reply);
    isRead = true;
  } finally {
    if (!isRead) {
      stopped.abort(new Error("The stream was cancelled."));
      // The reader gets its own error, or has stopped reading.
      recorded.catch(() => {});
    }
  }
}

/** Events that are read while more arrive. */
class EventQueue {
  readonly #events: StreamEvent[] = [];
  #isEnded = false;
  #wake: () => void = () => {};

  push(event: StreamEvent): void {
    this.#events.push(event);
    this.#wake();
  }

  /** The reader gets the remaining events. */
  readonly end = (): void => {
    this.#isEnded = true;
    this.#wake();
  };

  async *read(): AsyncGenerator<StreamEvent> {
    for (;;) {
      for (let event = this.#events.shift(); event; event = this.#events.shift()) yield event;
      if (this.#isEnded) return;
      // The reader continues in its own async context, and not in that of the recorded call.
      await new Promise<void>((resolve) => (this.#wake = AsyncResource.bind(resolve)));
    }
  }
}
