/**
 * What is needed of the AI SDK, by what it looks like. Nothing of it is loaded: versions 6 and 7, and models of any
 * specification that they take, differ in what their messages and parts hold, which is recorded as it is.
 */
import type { ModelMessage } from "ai";

export type { ModelMessage };

/** The state of a session whose loop is the SDK's. */
export interface AiState {
  /** Everything said so far, as the SDK's own messages. */
  readonly messages: ModelMessage[];
  /** The turn that the last of them belong to. */
  readonly turn: {
    /** Where its messages begin. */
    readonly from: number;
    /** Is it over? */
    readonly done: boolean;
  };
}

/** A part of a message, of a reply or of a stream. */
export type SdkPart = { readonly type: string } & Readonly<Record<string, unknown>>;

/** A message as a model gets it. */
export interface PromptMessage {
  readonly role: string;
  readonly content: string | readonly SdkPart[];
}

/** What a model is called with, as far as it matters here. */
export interface CallOptions {
  readonly prompt: readonly PromptMessage[];
  readonly abortSignal?: AbortSignal | undefined;
}

/** A model's reply. */
export interface Generated {
  readonly content: readonly SdkPart[];
  readonly finishReason?: unknown;
  readonly usage?: unknown;
  readonly warnings?: unknown;
  readonly providerMetadata?: unknown;
  readonly request?: unknown;
  readonly response?: Readonly<Record<string, unknown>> | undefined;
}

/** A model's reply that comes in parts. */
export interface Streamed {
  readonly stream: ReadableStream<SdkPart>;
  readonly request?: unknown;
  readonly response?: Readonly<Record<string, unknown>> | undefined;
}

/** A language model of the SDK. */
export interface SdkModel {
  readonly specificationVersion: string;
  readonly modelId: string;
  doGenerate(options: CallOptions): PromiseLike<Generated>;
  doStream(options: CallOptions): PromiseLike<Streamed>;
}

/** What a tool's function gets beside its input. */
export interface ExecuteOptions {
  readonly toolCallId: string;
  readonly abortSignal?: AbortSignal | undefined;
}

/** A tool of the SDK that is run here. */
export interface SdkTool {
  execute(input: unknown, options: ExecuteOptions): unknown;
  toModelOutput?(given: { toolCallId: string; input: unknown; output: unknown }): unknown;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** A signal that is aborted when one of these is. */
export function anySignal(...signals: readonly (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}
