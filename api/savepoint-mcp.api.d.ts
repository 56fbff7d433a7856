interface McpOptions {
  readonly write?: boolean;
  readonly agent?: string;
  readonly signal?: AbortSignal;
  readonly streams?: McpStreams;
}

declare class McpServer {
  readonly server: Server;
  private readonly _maxToolInputElements;
  private _registeredResources;
  private _registeredResourceTemplates;
  private _registeredTools;
  private _registeredPrompts;
  private _toolInputSchemaJson;
  toolInputSchemaJson(name: string): Record<string, unknown> | undefined;
  constructor(serverInfo: Implementation, options?: McpServerOptions);
  connect(transport: Transport): Promise<void>;
  close(): Promise<void>;
  resolveScopeChallenge: ScopeChallengeHandler;
  private _toolHandlersInitialized;
  private setToolRequestHandlers;
  private createToolError;
  private validateToolInput;
  private validateToolOutput;
  private executeToolHandler;
  private _completionHandlerInitialized;
  private setCompletionRequestHandler;
  private handlePromptCompletion;
  private handleResourceCompletion;
  private _resourceHandlersInitialized;
  private setResourceRequestHandlers;
  private _promptHandlersInitialized;
  private setPromptRequestHandlers;
  registerResource(
    name: string,
    uriOrTemplate: string,
    config: ResourceMetadata & {
      cacheHint?: CacheHint;
      scopeChallenge?: ScopeChallengeHandler;
    },
    readCallback: ReadResourceCallback,
  ): RegisteredResource;
  registerResource(
    name: string,
    uriOrTemplate: ResourceTemplate,
    config: ResourceMetadata & {
      cacheHint?: CacheHint;
      scopeChallenge?: ScopeChallengeHandler;
    },
    readCallback: ReadResourceTemplateCallback,
  ): RegisteredResourceTemplate;
  private _createRegisteredResource;
  private _createRegisteredResourceTemplate;
  private _createRegisteredPrompt;
  private _createRegisteredTool;
  registerTool<
    OutputArgs extends StandardSchemaWithJSON,
    InputArgs extends StandardSchemaWithJSON | undefined = undefined,
  >(
    name: string,
    config: {
      title?: string;
      description?: string;
      inputSchema?: InputArgs;
      outputSchema?: OutputArgs;
      annotations?: ToolAnnotations;
      icons?: Icon[];
      scopeChallenge?: ScopeChallengeHandler;
      _meta?: Record<string, unknown>;
    },
    cb: ToolCallback<InputArgs>,
  ): RegisteredTool;
  registerTool<
    InputArgs extends ZodRawShape,
    OutputArgs extends ZodRawShape | StandardSchemaWithJSON | undefined = undefined,
  >(
    name: string,
    config: {
      title?: string;
      description?: string;
      inputSchema?: InputArgs;
      outputSchema?: OutputArgs;
      annotations?: ToolAnnotations;
      icons?: Icon[];
      scopeChallenge?: ScopeChallengeHandler;
      _meta?: Record<string, unknown>;
    },
    cb: LegacyToolCallback<InputArgs>,
  ): RegisteredTool;
  registerPrompt(
    name: string,
    config: {
      title?: string;
      description?: string;
      argsSchema?: undefined;
      icons?: Icon[];
      scopeChallenge?: ScopeChallengeHandler;
      _meta?: Record<string, unknown>;
    },
    cb: PromptCallback,
  ): RegisteredPrompt;
  registerPrompt<Args extends StandardSchemaWithJSON>(
    name: string,
    config: {
      title?: string;
      description?: string;
      argsSchema?: Args;
      icons?: Icon[];
      scopeChallenge?: ScopeChallengeHandler;
      _meta?: Record<string, unknown>;
    },
    cb: PromptCallback<Args>,
  ): RegisteredPrompt;
  registerPrompt<Args extends ZodRawShape>(
    name: string,
    config: {
      title?: string;
      description?: string;
      argsSchema?: Args;
      icons?: Icon[];
      scopeChallenge?: ScopeChallengeHandler;
      _meta?: Record<string, unknown>;
    },
    cb: LegacyPromptCallback<Args>,
  ): RegisteredPrompt;
  isConnected(): boolean;
  sendLoggingMessage(params: LoggingMessageNotification["params"], sessionId?: string): Promise<void>;
  sendResourceListChanged(): void;
  sendToolListChanged(): void;
  sendPromptListChanged(): void;
}

interface McpStreams {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
}

function createMcpServer(sp: Savepoint, options?: McpOptions): McpServer;

function serveMcp(sp: Savepoint, options?: McpOptions): Promise<void>;
