/** The public types of saved agents, and the validation of what callers save. */
import { SavepointError } from "../errors.js";
import { type ClassRegistry, valueToShadow, shadowToValue } from "../state/index.js";
import { validateFields, validatePlainObject, invalidArgument } from "../util/index.js";
import { checkId, type SkippedCheckpoint } from "../records/index.js";

/** An agent without its state, as listings return it. */
export interface SavedAgentInfo {
  readonly id: string;
  readonly name: string;
  readonly type: string | undefined;
  readonly capabilities: readonly string[];
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly modifiedAt: number;
  /** Starts at 1, and increases by 1 with every save. */
  readonly version: number;
}

/** An agent with its state. The state is a plain, mutable copy that belongs to the caller. */
export interface SavedAgent<State = Record<string, unknown>> extends SavedAgentInfo {
  readonly systemPrompt: string | undefined;
  readonly config: Record<string, unknown>;
  readonly state: State;
  /** The ids of its conversations that are not archived, oldest first. */
  readonly activeConversations: readonly string[];
  /** Newer versions that were skipped because they are damaged. */
  readonly skipped: readonly SkippedCheckpoint[];
}

/** The fields of an agent that callers set. */
export interface AgentFields<State = unknown> {
  readonly name: string;
  readonly type?: string | undefined;
  readonly systemPrompt?: string | undefined;
  readonly capabilities?: readonly string[];
  readonly config?: object;
  /** Its own durable state: plain data. A save writes only the change. */
  readonly state?: State;
  /** Plain data. It is read with every listing, so keep it small. */
  readonly metadata?: object;
}

/** An agent to save. A loaded agent can be saved back: the fields that Savepoint maintains are ignored. */
export interface AgentToSave<State = unknown>
  extends
    AgentFields<State>,
    Partial<Pick<SavedAgent, "version" | "createdAt" | "modifiedAt" | "activeConversations" | "skipped">> {
  readonly id: string;
}

/** The validated fields of an agent, with defaults filled in. They are copies, so later changes by the caller do not affect them. */
export type AgentContent = Pick<
  SavedAgent<unknown>,
  "name" | "type" | "systemPrompt" | "capabilities" | "config" | "state" | "metadata"
>;

const WRITABLE = ["id", "name", "type", "systemPrompt", "capabilities", "config", "state", "metadata"];
/** Fields that a loaded agent has and that `save` ignores, so that a loaded agent can be passed to `save`. */
const READ_ONLY = ["version", "createdAt", "modifiedAt", "activeConversations", "skipped"];
const FIELDS: ReadonlySet<string> = new Set([...WRITABLE, ...READ_ONLY]);

/** Validates and copies the fields of an agent. */
export function parseAgent(id: string, fields: AgentFields, registry: ClassRegistry): AgentContent {
  validateFields(fields, "An agent", FIELDS);
  checkId(id, "agent id");
  validatePlainObject(fields.config, "The configuration of an agent");
  validatePlainObject(fields.metadata, "The metadata of an agent");
  const { name, type, systemPrompt, capabilities = [], config = {}, state = {}, metadata = {} } = fields;
  for (const [key, text] of Object.entries({ name, type, systemPrompt })) {
    const isValid = typeof text === "string" || (text === undefined && key !== "name");
    if (!isValid) throw invalidField(id, `\`${key}\` must be a string, got ${typeof text}`);
  }
  if (!Array.isArray(capabilities) || !capabilities.every((each) => typeof each === "string")) {
    throw invalidField(id, "`capabilities` must be an array of strings");
  }
  const copy = <T>(value: T): T => shadowToValue(valueToShadow(value, registry), registry) as T;
  return {
    name,
    type,
    systemPrompt,
    capabilities: [...(capabilities as string[])],
    config: copy({ ...config }),
    state: copy(state),
    metadata: copy({ ...metadata }),
  };
}

/** The error for an agent that does not exist. */
export function agentNotFound(id: string): SavepointError<"AGENT_NOT_FOUND"> {
  return new SavepointError(
    "AGENT_NOT_FOUND",
    `There is no agent ${JSON.stringify(id)}. Save it first with sp.agents.save(); sp.agents.list() lists all agents.`,
    { details: { agent: id } },
  );
}

function invalidField(id: string, why: string): SavepointError<"INVALID_ARGUMENT"> {
  return invalidArgument(`Agent ${JSON.stringify(id)} cannot be saved: ${why}.`);
}
