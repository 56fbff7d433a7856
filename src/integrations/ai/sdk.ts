/**
 * The AI SDK's models, tools and messages, typed structurally. The SDK is not loaded, because its versions 6 and 7, and
 * the model specifications that they support, differ in the contents of messages and parts. These contents are recorded
 * unchanged.
 */
import type { ModelMessage } from "ai";
import { SavepointError } from "../../index.js";

export type { ModelMessage };

/** The state of a session that is run by the SDK's loop. */
export interface AiState {
  /** The conversation so far, as the SDK's own messages. */
  readonly messages: ModelMessage[];
  /** The turn that the last messages belong to. */
  readonly turn: {
    /** The index of the turn's first message. */
    readonly from: number;
    /** Whether the turn has ended. */
    readonly done: boolean;
  };
  /**
   * The ids of UI messages, by the index of the message with which each begins: of the user's messages whose turns have names, and of replies that were streamed to a user interface.
   */
  readonly ids?: Readonly<Record<string, string>>;
}

/** A part of a message, a reply or a stream. */
export type SdkPart = { readonly type: string } & Readonly<Record<string, unknown>>;

/** A message of the prompt of a model call. */
export interface PromptMessage {
  readonly role: string;
  readonly content: string | readonly SdkPart[];
}

/** The options of a model call that are used here. */
export interface CallOptions {
  readonly prompt: readonly PromptMessage[];
  readonly abortSignal?: AbortSignal | undefined;
}

/** The result of `doGenerate`. */
export interface Generated {
  readonly content: readonly SdkPart[];
  readonly finishReason?: unknown;
  readonly usage?: unknown;
  readonly warnings?: unknown;
  readonly providerMetadata?: unknown;
  readonly request?: unknown;
  readonly response?: Readonly<Record<string, unknown>> | undefined;
}

/** The result of `doStream`. */
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

/** The second argument of a tool's `execute`. */
export interface ExecuteOptions {
  readonly toolCallId: string;
  readonly abortSignal?: AbortSignal | undefined;
}

/** A tool of the SDK that runs in this process. */
export interface SdkTool {
  readonly inputSchema?: unknown;
  execute(input: unknown, options: ExecuteOptions): unknown;
  readonly needsApproval?: unknown;
  readonly onInputStart?: unknown;
  readonly onInputAvailable?: unknown;
  toModelOutput?(given: { toolCallId: string; input: unknown; output: unknown }): unknown;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** A signal that is aborted as soon as one of these is. Returns `signal` itself if there is no other signal. */
export function anySignal(signal: AbortSignal, other: AbortSignal | undefined): AbortSignal {
  return other === undefined || other === signal ? signal : AbortSignal.any([signal, other]);
}

/** The error for an argument that is invalid; the message says what to pass instead. */
export function invalidArgument(message: string, details: Readonly<Record<string, unknown>> = {}): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", message, { details });
}
