interface AiState {
  readonly messages: ModelMessage[];
  readonly turn: {
    readonly from: number;
    readonly done: boolean;
  };
}

type DurableOptions = Omit<OpenRunOptions, "initial">;

interface DurableRun extends AsyncDisposable {
  readonly session: string;
  readonly branch: string;
  readonly signal: AbortSignal;
  readonly finished: RunResult<AiState> | undefined;
  model<Model extends object>(model: Model, options?: ModelOptions): Model;
  tools<Tools extends Record<string, object>>(tools: Tools, policies?: ToolPolicies<Tools>): Tools;
  messages(input?: string | ModelMessage | readonly ModelMessage[]): ModelMessage[];
  complete(result?: unknown): Promise<RunResult<AiState>>;
  fail(error: unknown): Promise<RunResult<AiState>>;
  release(): Promise<void>;
}

type ModelMessage = SystemModelMessage | UserModelMessage | AssistantModelMessage | ToolModelMessage;

interface ModelOptions {
  readonly name?: string;
  readonly aside?: boolean;
}

type ToolPolicies<Tools extends Record<string, object>> = {
  readonly [Name in keyof Tools]?: ToolPolicy<InputOf<Tools[Name]>>;
};

interface ToolPolicy<Input = unknown, Output = unknown> extends Pick<EffectOptions, "onUnknown" | "timeout"> {
  readonly verify?: (context: VerifyContext<Input>) => Verdict<Output> | Promise<Verdict<Output>>;
}

interface VerifyContext<Input = unknown> extends EffectContext {
  readonly toolCallId: string;
  readonly input: Input;
}

function durable(sp: Savepoint, options: DurableOptions): Promise<DurableRun>;

function idempotencyKeyOf(options: object): string | undefined;
