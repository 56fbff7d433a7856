/**
 * Agents that are used as tools.
 *
 * The function of such a tool runs the agent that it was made from, whatever agent has the tool. So the agent itself gets properties that
 * return its wrapped parts to code that runs inside the tool in a durable turn, and the original ones to all other code.
 */
import type { Agent, FunctionTool, Handoff, Model, ModelProvider, RunContext, Tool } from "@openai/agents-core";
import { type ModelContext, wrapProvider } from "./model.js";
import { copyWith, invalidArgument } from "./sdk.js";
import type { ToolContext } from "./tools.js";
import { nestedRuns } from "./turn.js";

type AnyAgent = Agent<unknown, "text">;

/** The parts of an agent that differ in a durable turn. */
interface Parts {
  readonly model: AnyAgent["model"];
  readonly tools: AnyAgent["tools"];
  readonly handoffs: AnyAgent["handoffs"];
  /** The tools of its MCP servers. */
  readonly getMcpTools: AnyAgent["getMcpTools"];
}

const PARTS = ["model", "tools", "handoffs", "getMcpTools"] as const;

/** Wraps the parts of an agent. */
interface PartWrapper {
  /** Called with each agent that is used as a tool. */
  add(agent: AnyAgent): void;
  model(model: Model, agent: string): Model;
  tools(tools: readonly Tool<unknown>[]): Tool<unknown>[];
  handoffs(handoffs: readonly (AnyAgent | Handoff<unknown, "text">)[]): AnyAgent["handoffs"];
}

/** Whether a tool was made by `agent.asTool()`. */
export function isAgentTool(tool: Tool): tool is FunctionTool {
  return tool.type === "function" && typeof (tool as { readonly on?: unknown }).on === "function";
}

/** The parts of agents that are used as tools, by what wraps them. */
const partsOfAgents = new WeakMap<AnyAgent, WeakMap<object, Parts>>();

/** The name under which the SDK finds the configuration of the run that has called a tool. */
const PARENT_CONFIG = Symbol.for("openai.agents.agentToolParentRunConfig");

interface ParentConfig {
  readonly model?: string | Model;
  readonly modelProvider?: ModelProvider;
}

interface NestedContext extends ToolContext, ModelContext {
  /** The agents that turns have wrapped. */
  readonly made: WeakSet<object>;
}

/** The agent tools of a graph of agents. */
export class NestedAgents {
  readonly #context: NestedContext;
  readonly #wrapper: PartWrapper;

  constructor(context: NestedContext, wrapper: PartWrapper) {
    this.#context = context;
    this.#wrapper = wrapper;
  }

  /** Wraps an agent tool. Returns `undefined` if its agent cannot be found: then it is a tool like any other. */
  wrap(tool: FunctionTool): FunctionTool | undefined {
    const agent = this.#findAgent(tool);
    // A sandbox agent works outside of this process, so its tool is one call.
    if (!agent || "defaultManifest" in agent) return undefined;
    // A tool of a wrapped agent runs that.
    if (!this.#context.made.has(agent)) this.#install(agent);
    // Only the SDK registers which agent a tool was made from, and it needs this for tools that wait for approval.
    const registered = agent.asTool({
      toolName: tool.name,
      toolDescription: tool.description,
    }) as unknown as FunctionTool;
    const invoke: FunctionTool["invoke"] = (runContext, input, details) =>
      this.#run(tool, agent, runContext, input, details);
    return Object.defineProperties(registered, Object.getOwnPropertyDescriptors(copyWith(tool, { invoke })));
  }

  #install(agent: AnyAgent): void {
    install(agent);
    const byGraph = partsOfAgents.get(agent);
    if (!byGraph || byGraph.has(this)) return;
    this.#wrapper.add(agent);
    // Agents may use each other as tools.
    byGraph.set(this, originalParts(agent));
    byGraph.set(this, this.#wrapParts(agent));
  }

  async #run(tool: FunctionTool, agent: AnyAgent, ...[runContext, input, details]: Parameters<FunctionTool["invoke"]>) {
    const { turn } = this.#context;
    const id = details?.toolCall?.callId;
    if (details === undefined || id === undefined) {
      throw invalidArgument(`The agent tool ${JSON.stringify(tool.name)} was called without a call id.`);
    }
    const given = copyWith(details, {});
    const config = this.#wrapConfig((details as { readonly [PARENT_CONFIG]?: ParentConfig })[PARENT_CONFIG]);
    Object.defineProperty(given, PARENT_CONFIG, { value: config, configurable: true });
    return turn.runNested({ id, agent: agent.name, graph: this }, () => tool.invoke(runContext, input, given));
  }

  /** A nested run finds models by name with the provider of the run around it. */
  #wrapConfig(config: ParentConfig = {}): ParentConfig {
    const { sdk } = this.#context;
    const { model, modelProvider = new sdk.Runner().config.modelProvider } = config;
    return {
      ...config,
      modelProvider: wrapProvider(modelProvider, this.#context),
      ...(typeof model === "object" && { model: this.#wrapper.model(model, "model") }),
    };
  }

  #wrapParts(agent: AnyAgent): Parts {
    const { model, tools, handoffs, getMcpTools } = originalParts(agent);
    return {
      model: typeof model === "object" ? this.#wrapper.model(model, agent.name) : model,
      tools: this.#wrapper.tools(tools),
      handoffs: this.#wrapper.handoffs(handoffs),
      getMcpTools: async (...args) => this.#wrapper.tools(await getMcpTools.apply(agent, args)),
    };
  }

  /** The agent that a tool was made from. The SDK reveals it only to the contexts of its run states. */
  #findAgent(tool: FunctionTool): AnyAgent | undefined {
    const { sdk } = this.#context;
    const probe = new sdk.Agent({ name: "probe", tools: [tool] });
    const context = new sdk.RunContext() as RunContext & { _toJSONForRunState(agents: Map<AnyAgent, string>): unknown };
    const toJson = context._toJSONForRunState.bind(context);
    let found: AnyAgent | undefined;
    context._toJSONForRunState = (agents) => {
      // The probe is the first key. The agents that the agent uses follow.
      found = [...agents.keys()].find((agent) => agent !== (probe as unknown));
      return toJson(agents);
    };
    new sdk.RunState(context, "", probe, 1).toJSON();
    return found;
  }
}

/** The properties of an agent outside of durable turns. */
const originals = new WeakMap<AnyAgent, Record<string, unknown>>();

function originalParts(agent: AnyAgent): Parts {
  return { ...(originals.get(agent) as unknown as Parts) };
}

/** Replaces the parts of an agent by properties that depend on the run that reads them. */
function install(agent: AnyAgent): void {
  if (originals.has(agent)) return;
  const values: Record<string, unknown> = Object.fromEntries(PARTS.map((name) => [name, agent[name]]));
  originals.set(agent, values);
  partsOfAgents.set(agent, new WeakMap());
  for (const name of PARTS) {
    Object.defineProperty(agent, name, {
      // A method is not copied to clones.
      enumerable: name !== "getMcpTools",
      configurable: true,
      get: () => {
        const nested = nestedRuns.getStore();
        const parts = nested && partsOfAgents.get(agent)?.get(nested.graph);
        return parts ? parts[name] : values[name];
      },
      set: (value: unknown) => {
        values[name] = value;
      },
    });
  }
}
