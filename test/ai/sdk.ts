/** The AI SDK that is tried: version 6, or 7 where the environment says so. Both are used by what they have in common. */
import type * as Sdk from "ai";
import type * as SdkTest from "ai/test";

export const VERSION = process.env["AI_SDK"] === "7" ? 7 : 6;

const [sdk, sdkTest]: unknown[] =
  VERSION === 7
    ? await Promise.all([import("ai7"), import("ai7/test")])
    : await Promise.all([import("ai"), import("ai/test")]);

export const { generateObject, generateText, Output, stepCountIs, streamText, tool, ToolLoopAgent } = sdk as typeof Sdk;

const { MockLanguageModelV3, MockLanguageModelV4, convertArrayToReadableStream } = sdkTest as typeof SdkTest & {
  MockLanguageModelV4: typeof SdkTest.MockLanguageModelV3;
};

export { convertArrayToReadableStream };

/** The SDK's own test model, of the specification that this version is made for. */
export const MockModel = VERSION === 7 ? MockLanguageModelV4 : MockLanguageModelV3;

export type MockModel = InstanceType<typeof MockModel>;
