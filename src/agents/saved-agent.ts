/** What an agent is that is saved: who acts, and its own durable state. */
import { SavepointError } from "../errors.js";
import { type ClassRegistry, valueToShadow, shadowToValue } from "../state/index.js";
import { validateFields, validatePlainObject, invalidArgument } from "../util/index.js";
import { checkId, type SkippedCheckpoint } from "../records/index.js";

/** An agent without its state: what listings give. */
export interface SavedAgentInfo {
  readonly id: string;
  readonly name: string;
  readonly type: string | undefined;
  readonly capabilities: readonly string[];
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly modifiedAt: number;
  /** 1 for the first save; one more with every other. */
  readonly version: number;
}

/** An agent with its state, which is plain, mutable and the caller's own. */
export interface SavedAgent<State = Record<string, unknown>> extends SavedAgentInfo {
  readonly systemPrompt: string | undefined;
  readonly config: Record<string, unknown>;
  readonly state: State;
  /** Its conversations that are not archived, by id, oldest first. */
  readonly activeConversations: readonly string[];
  /** Newer versions that had to be stepped over because they are damaged. */
  readonly skipped: readonly SkippedCheckpoint[];
}

/** What can be said about an agent. */
export interface AgentFields<State = unknown> {
  readonly name: string;
  readonly type?: string | undefined;
  readonly systemPrompt?: string | undefined;
  readonly capabilities?: readonly string[];
  readonly config?: object;
  /** Its own durable state: any plain data. Only what changed is written. */
  readonly state?: State;
  /** Any plain data; read with every listing, so keep it small. */
  readonly metadata?: object;
}

/** An agent to save. What `load` gave can be given back: what Savepoint itself keeps is not looked at. */
export interface AgentToSave<State = unknown>
  extends
    AgentFields<State>,
    Partial<Pick<SavedAgent, "version" | "createdAt" | "modifiedAt" | "activeConversations" | "skipped">> {
  readonly id: string;
}

/** Fields with everything filled in, and nothing of the caller's own in them. */
export interface AgentContent {
  readonly name: string;
  readonly type: string | undefined;
  readonly systemPrompt: string | undefined;
  readonly capabilities: readonly string[];
  readonly config: Record<string, unknown>;
  readonly state: unknown;
  readonly metadata: Record<string, unknown>;
}

const GIVEN = ["id", "name", "type", "systemPrompt", "capabilities", "config", "state", "metadata"];
/** What `load` gave can be given back. */
const KEPT = ["version", "createdAt", "modifiedAt", "activeConversations", "skipped"];
const FIELDS: ReadonlySet<string> = new Set([...GIVEN, ...KEPT]);

export function parseAgent(id: string, fields: AgentFields, registry: ClassRegistry): AgentContent {
  validateFields(fields, "An agent", FIELDS);
  checkId(id, "agent id");
  validatePlainObject(fields.config, "The configuration of an agent");
  validatePlainObject(fields.metadata, "The metadata of an agent");
  const { name, type, systemPrompt, capabilities = [], config = {}, state = {}, metadata = {} } = fields;
  for (const [key, text] of Object.entries({ name, type, systemPrompt })) {
    const wanted = typeof text === "string" || (text === undefined && key !== "name");
    if (!wanted) throw invalidField(id, `its ${key} is ${text === undefined ? "missing" : `of type ${typeof text}`}`);
  }
  if (!Array.isArray(capabilities) || !capabilities.every((each) => typeof each === "string")) {
    throw invalidField(id, "its capabilities are not an array of texts");
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

export function agentNotFound(id: string): SavepointError<"AGENT_NOT_FOUND"> {
  return new SavepointError(
    "AGENT_NOT_FOUND",
    `There is no agent ${JSON.stringify(id)}. Save it first with sp.agents.save(); sp.agents.list() names those there are.`,
    { details: { agent: id } },
  );
}

function invalidField(id: string, why: string): SavepointError<"INVALID_ARGUMENT"> {
  return invalidArgument(`Agent ${JSON.stringify(id)} cannot be saved: ${why}.`);
}
