/** Models that an agent has by name only. The SDK treats them differently from model objects, so their requests are completed here. */
import type {
  getDefaultModelSettings,
  Model,
  ModelProvider,
  ModelRequest,
  ModelResponse,
  ModelSettings,
  StreamEvent,
} from "@openai/agents-core";

/** Which model an agent has. */
export interface NamedModelOptions {
  /** The name; empty for the default model. */
  readonly name: string;
  readonly provider: ModelProvider;
  /** Whether the agent has settings of its own, so that it gets none by default. */
  readonly hasSettings: boolean;
  readonly defaultSettings: typeof getDefaultModelSettings;
}

/** A model that is found by its name for each call, as the SDK does. */
export class NamedModel implements Model {
  readonly #options: NamedModelOptions;

  constructor(options: NamedModelOptions) {
    this.#options = options;
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const model = await this.#find();
    return model.getResponse(this.#complete(request, model));
  }

  async *getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    const model = await this.#find();
    yield* model.getStreamedResponse(this.#complete(request, model));
  }

  async getRetryAdvice(
    ...args: Parameters<NonNullable<Model["getRetryAdvice"]>>
  ): Promise<Awaited<ReturnType<NonNullable<Model["getRetryAdvice"]>>>> {
    return (await this.#find()).getRetryAdvice?.(...args);
  }

  async #find(): Promise<Model> {
    const { provider, name } = this.#options;
    return provider.getModel(name);
  }

  /** A model object overrides the model of a prompt template and gets no default settings. A default model does neither. */
  #complete(request: ModelRequest, { supportsPromptModelSelection }: Model): ModelRequest {
    const { name, hasSettings, defaultSettings } = this.#options;
    const { overridePromptModel: _, ...rest } = request;
    const base = name === "" ? rest : request;
    const isChosenByPrompt = name === "" && request.prompt !== undefined && supportsPromptModelSelection === true;
    if (hasSettings || isChosenByPrompt) return base;
    const defaults = defaultSettings(name === "" ? undefined : name);
    return { ...base, modelSettings: mergeSettings(defaults, request.modelSettings) };
  }
}

/** Settings over defaults. The groups `reasoning` and `text` are merged field by field, as the SDK does. */
function mergeSettings(defaults: ModelSettings, settings: ModelSettings): ModelSettings {
  const merged: ModelSettings = { ...defaults, ...settings };
  if (defaults.reasoning && settings.reasoning) merged.reasoning = { ...defaults.reasoning, ...settings.reasoning };
  if (defaults.text && settings.text) merged.text = { ...defaults.text, ...settings.text };
  return merged;
}
