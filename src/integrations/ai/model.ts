/** Models whose replies are recorded. */
import { invalidArgument } from "./invalid.js";
import { omit } from "./omit.js";
import { asGenerated, asStream, type RecordedReply } from "./other-form.js";
import { recordStream, replayStream } from "./stream.js";
import { anySignal, type CallOptions, type Generated, isObject, type SdkModel, type Streamed } from "./sdk.js";
import type { Turn } from "./turn.js";
import { usageOf } from "./usage.js";

/** What is said about a model. */
export interface ModelOptions {
  /**
   * Tells apart models that are asked in parallel in one turn.
   * @default "model"
   */
  readonly name?: string;
  /**
   * Is what it is asked, and says, no part of the conversation? For a title, a classification, a summary.
   * @default false
   */
  readonly aside?: boolean;
}

/** The same model, recorded. It keeps its specification, and everything else that it has. */
export function wrapModel<Model extends object>(model: Model, turn: Turn, options: ModelOptions): Model {
  const inner = checkModel(model);
  const { name = "model", aside = false } = options;
  const doGenerate = (call: CallOptions): Promise<Generated> => generate(inner, turn, name, aside, call);
  const doStream = (call: CallOptions): Promise<Streamed> => stream(inner, turn, name, aside, call);
  return new Proxy(model, {
    get(target, property) {
      if (property === "doGenerate") return doGenerate;
      if (property === "doStream") return doStream;
      // As itself: a model's own fields may be private.
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

async function generate(
  model: SdkModel,
  turn: Turn,
  name: string,
  aside: boolean,
  call: CallOptions,
): Promise<Generated> {
  let live: Generated | undefined;
  const recorded = await turn.ask<RecordedReply>(name, aside, call, {
    ask: async (signal) => {
      live = await model.doGenerate({ ...call, abortSignal: anySignal(signal, call.abortSignal) });
      return withoutBodies(live);
    },
    content: (reply) => asGenerated(reply).content,
    usage: (reply) => usageOf(asGenerated(reply).usage),
  });
  return live ?? asGenerated(recorded);
}

async function stream(model: SdkModel, turn: Turn, name: string, aside: boolean, call: CallOptions): Promise<Streamed> {
  const live = recordStream(turn);
  const reply = turn.ask<RecordedReply>(name, aside, call, {
    ask: (signal) =>
      live.record((abortSignal) => model.doStream({ ...call, abortSignal }), anySignal(signal, call.abortSignal)),
    content: (recorded) => asGenerated(recorded).content,
    usage: (recorded) => usageOf(asGenerated(recorded).usage),
  });
  const recorded = reply.then(asStream);
  live.end(recorded);
  // Where it is asked, it begins before it is recorded.
  return Promise.race([live.begun, recorded.then((stored) => (live.hasBegun ? live.begun : replayStream(stored)))]);
}

function withoutBodies(generated: Generated): Generated {
  const { response } = generated;
  return omit({ ...generated, ...(response && { response: omit(response, "body") }) }, "request");
}

function checkModel(model: unknown): SdkModel {
  if (typeof model === "string") {
    throw invalidArgument(
      `run.model() needs the model itself, not its name ${JSON.stringify(model)}. Get it from its provider, or with gateway(${JSON.stringify(model)}) of the AI SDK.`,
    );
  }
  const { doGenerate, doStream } = isObject(model) ? model : {};
  if (typeof doGenerate === "function" && typeof doStream === "function") return model as unknown as SdkModel;
  throw invalidArgument("run.model() needs a language model of the AI SDK: one with doGenerate() and doStream().");
}
