/** The AI SDK under test: version 6, or 7 if the environment selects it. The tests use what both have in common. */
import type * as Sdk from "ai";
import type * as SdkTest from "ai/test";

export const VERSION = process.env["AI_SDK"] === "7" ? 7 : 6;

const [sdk, sdkTest]: unknown[] =
  VERSION === 7
    ? await Promise.all([import("ai7"), import("ai7/test")])
    : await Promise.all([import("ai"), import("ai/test")]);

export const {
  AbstractChat,
  convertToModelMessages,
  createUIMessageStream,
  DefaultChatTransport,
  generateObject,
  generateText,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  Output,
  readUIMessageStream,
  stepCountIs,
  streamText,
  tool,
  ToolLoopAgent,
} = sdk as typeof Sdk;

const { MockLanguageModelV3, MockLanguageModelV4, convertArrayToReadableStream } = sdkTest as typeof SdkTest & {
  MockLanguageModelV4: typeof SdkTest.MockLanguageModelV3;
};

export { convertArrayToReadableStream };

/** The SDK's own test model, in the specification of this version. */
export const MockModel = VERSION === 7 ? MockLanguageModelV4 : MockLanguageModelV3;

export type MockModel = InstanceType<typeof MockModel>;
