/** Agents whose models and tools are recorded, with all agents that they hand off to or use as tools. */
import type { Agent, Handoff, Model, Runner, Tool } from "@openai/agents-core";
import { type ModelContext, wrapModel } from "./model.js";
import { NamedModel } from "./named-model.js";
import { isAgentTool, NestedAgents } from "./nested-agents.js";
import { checkPolicies, checkPolicyNames, type ToolPolicies } from "./policies.js";
import { findSdkOf, invalidArgument, isObject, type Sdk } from "./sdk.js";
import { recordedName, type ToolContext, wrapTool } from "./tools.js";
import type { Turn } from "./turn.js";

/** An agent of the SDK. */
export interface AgentLike {
  readonly name: string;
  readonly tools: readonly object[];
  readonly handoffs: readonly object[];
}

/** Options of a durable agent. */
export interface DurableAgentOptions {
  /**
   * Set this for an agent that does not take part in the conversation, such as that of a guardrail. Its calls are recorded, but its items are
   * not shown as the messages of the session while the turn runs.
   * @default false
   */
  readonly aside?: boolean;
}

// The types of contexts and outputs are irrelevant here.
type AnyAgent = Agent<unknown, "text">;

/** Wraps the agents of a turn, each once. */
export class AgentWrapper {
  readonly #turn: Turn;
  readonly #sdk: Sdk;
  readonly #runner: Runner | undefined;
  /** All agents that this turn has made. */
  readonly #made = new WeakSet<object>();

  constructor(turn: Turn, sdk: Sdk, runner: Runner | undefined) {
    this.#turn = turn;
    this.#sdk = sdk;
    this.#runner = runner;
  }

  wrap<Wrapped extends AgentLike>(
    agent: Wrapped,
    policies: ToolPolicies,
    { aside = false }: DurableAgentOptions,
  ): Wrapped {
    if (this.#made.has(agent)) throw invalidArgument("turn.agent() got an agent that it has returned before.");
    const sdk = findSdkOf(agent, this.#sdk);
    if (!sdk) {
      throw invalidArgument(
        "turn.agent() needs an Agent of the package @openai/agents-core that is installed beside savepoint. If there are several copies, run: npm dedupe",
      );
    }
    checkPolicies(policies);
    const graph = new AgentGraph({ turn: this.#turn, sdk, policies, aside, runner: this.#runner, made: this.#made });
    const wrapped = graph.wrap(agent as unknown as AnyAgent);
    if (!graph.hasServers) checkPolicyNames(policies, graph.toolNames);
    return wrapped as unknown as Wrapped;
  }
}

interface GraphContext extends ToolContext, ModelContext {
  readonly runner: Runner | undefined;
  /** The agents that turns have wrapped. */
  readonly made: WeakSet<object>;
}

/** An agent and all agents that can be reached from it. They may refer to each other in cycles. */
class AgentGraph {
  readonly toolNames = new Set<string>();
  /** Whether an agent has tools of MCP servers, whose names are not known yet. */
  hasServers = false;
  readonly #context: GraphContext;
  readonly #wrapped = new Map<AnyAgent, AnyAgent>();
  readonly #nested: NestedAgents;

  constructor(context: GraphContext) {
    this.#context = context;
    this.#nested = new NestedAgents(context, {
      add: (agent) => this.#add(agent),
      model: (model, name) => this.#wrapModel(model, name),
      tools: (tools) => this.#wrapTools(tools),
      handoffs: (handoffs) => this.#wrapHandoffs(handoffs),
    });
  }

  /**
   * The wrapped agent inherits everything from the original: its class, its instructions, its event listeners and later changes to them.
   * Its model, tools and handoffs are its own.
   */
  wrap(agent: AnyAgent): AnyAgent {
    const { made } = this.#context;
    const known = made.has(agent) ? agent : this.#wrapped.get(agent);
    if (known) return known;
    if ("defaultManifest" in agent) {
      throw invalidArgument(
        `The agent ${JSON.stringify(agent.name)} is a sandbox agent, whose tools run outside of this process. Sandbox agents cannot be made durable.`,
      );
    }
    const wrapped = Object.create(agent) as AnyAgent;
    made.add(wrapped);
    this.#wrapped.set(agent, wrapped);
    this.#add(agent);
    const set = (name: string, value: unknown): void =>
      void Object.defineProperty(wrapped, name, { value, writable: true, enumerable: true, configurable: true });
    set("model", this.#modelOf(agent));
    set("tools", this.#wrapTools(agent.tools));
    set("handoffs", this.#wrapHandoffs(agent.handoffs));
    set("getMcpTools", async (...args: Parameters<AnyAgent["getMcpTools"]>) =>
      this.#wrapTools(await agent.getMcpTools(...args)),
    );
    set("clone", (...args: Parameters<AnyAgent["clone"]>) => this.wrap(agent.clone(...args)));
    return wrapped;
  }

  #add({ mcpServers }: AnyAgent): void {
    if (mcpServers.length > 0) this.hasServers = true;
  }

  #modelOf({ name, model, ...agent }: AnyAgent): Model {
    const { sdk, runner } = this.#context;
    const chosen = model === "" ? (runner?.config.model ?? "") : model;
    if (typeof chosen !== "string") return this.#wrapModel(chosen, name);
    const named = new NamedModel({
      name: chosen,
      provider: (runner ?? new sdk.Runner()).config.modelProvider,
      hasSettings:
        (agent as { readonly _modelSettingsExplicitlyConfigured?: unknown })._modelSettingsExplicitlyConfigured ===
        true,
      defaultSettings: sdk.getDefaultModelSettings,
    });
    return this.#wrapModel(named, name);
  }

  #wrapModel(model: Model, name: string): Model {
    if (!isObject(model) || typeof model.getResponse !== "function") {
      throw invalidArgument(`The model of the agent ${JSON.stringify(name)} has no getResponse().`);
    }
    return wrapModel(model, name, this.#context);
  }

  #wrapTools(tools: readonly Tool<unknown>[]): Tool<unknown>[] {
    return tools.map((each) => {
      const tool = each as Tool;
      const nested = isAgentTool(tool) ? this.#nested.wrap(tool) : undefined;
      if (nested) return nested as Tool<unknown>;
      const name = recordedName(tool);
      if (name !== undefined) this.toolNames.add(name);
      return wrapTool(tool, this.#context) as Tool<unknown>;
    });
  }

  #wrapHandoffs(handoffs: readonly (AnyAgent | Handoff<unknown, "text">)[]): AnyAgent["handoffs"] {
    const { sdk } = this.#context;
    return handoffs.map((each) => {
      if (each instanceof sdk.Agent) return this.wrap(each as AnyAgent);
      const handoff = each as Handoff<unknown, "text">;
      return handoff.clone({
        agent: this.wrap(handoff.agent as AnyAgent),
        onInvokeHandoff: async (...args) => this.wrap((await handoff.onInvokeHandoff(...args)) as AnyAgent),
      });
    }) as AnyAgent["handoffs"];
  }
}
