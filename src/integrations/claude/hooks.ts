/** The part of the SDK's hooks that durable tools use, by its structure. */

/** What a hook gets: the fields of the events that durable tools listen to. */
export interface ToolHookInput {
  readonly hook_event_name: string;
  readonly tool_name?: string;
  readonly tool_input?: unknown;
  readonly tool_use_id?: string;
  readonly tool_response?: unknown;
  readonly error?: string;
  readonly is_interrupt?: boolean;
  readonly tool_calls?: readonly { readonly tool_use_id: string }[];
}

/** What a hook answers. */
export interface ToolHookOutput {
  continue?: boolean;
  stopReason?: string;
  hookSpecificOutput?: {
    hookEventName: "PreToolUse";
    permissionDecision: "deny";
    permissionDecisionReason: string;
  };
}

/** A hook of the SDK. */
export type ToolHook = (input: ToolHookInput) => Promise<ToolHookOutput>;

/** For the option `hooks` of the SDK's `query()`. */
export type ToolHooks = Record<
  "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PostToolBatch",
  { hooks: ToolHook[] }[]
>;

/** Makes Claude Code skip a call, and passes a string to the model as its result. */
export function denyCall(permissionDecisionReason: string): ToolHookOutput {
  return { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason } };
}

/** Makes Claude Code skip a call, and end the query. */
export function stopQuery(reason: string): ToolHookOutput {
  return { continue: false, stopReason: reason, ...denyCall(reason) };
}
