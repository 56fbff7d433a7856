/** The option `scope`: a `Savepoint` that is confined to one agent. */
import { SavepointError } from "../../errors.js";
import { checkId } from "../../records/index.js";
import { invalidArgument, validateFields } from "../../util/index.js";

/** What a `Savepoint` is confined to. */
export interface ScopeOptions {
  /** The id of the agent. */
  readonly agent: string;
}

const FIELDS: ReadonlySet<string> = new Set(["agent"]);

/** The agent that a `Savepoint` is confined to, if it is. `ScopedStore` confines; this completes and checks arguments. */
export class Scope {
  readonly agent: string | undefined;

  constructor(options: ScopeOptions | undefined) {
    if (options !== undefined) validateFields(options, "`scope`", FIELDS);
    this.agent = options && checkId(options.agent, "agent id");
  }

  /** The agent to use where a caller names this one, or none. @throws `INVALID_ARGUMENT` if it is another one */
  resolveAgent(agent: string | undefined): string | undefined {
    if (this.agent === undefined || agent === undefined || agent === this.agent) return agent ?? this.agent;
    throw invalidArgument(
      `This Savepoint is confined to agent ${JSON.stringify(this.agent)}, got agent ${JSON.stringify(agent)}. Leave the agent out.`,
    );
  }

  /** Options with the agent of the scope. @throws `INVALID_ARGUMENT` if they name another one */
  withAgent<Options extends { readonly agent?: string | undefined }>(options: Options): Options {
    return this.agent === undefined
      ? options
      : { ...options, agent: this.resolveAgent((options as Options | undefined)?.agent) };
  }

  /** Rejects an operation on the whole store. @throws `OUT_OF_SCOPE` */
  requireStore(what: string): void {
    if (this.agent !== undefined) throw outOfScope(this.agent, what);
  }
}

export function outOfScope(agent: string, what: string): SavepointError<"OUT_OF_SCOPE"> {
  return new SavepointError(
    "OUT_OF_SCOPE",
    `This Savepoint is confined to agent ${JSON.stringify(agent)}: ${what} is not available to it. Use an id of this agent, or open the store without \`scope\`.`,
  );
}
