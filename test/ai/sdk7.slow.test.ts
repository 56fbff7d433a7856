// AI SDK 7 needs a newer Node than the oldest that Savepoint supports: the same tests, in a process with the current one.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const SUITES = [
  "test/ai/durable.test.ts",
  "test/ai/contents.test.ts",
  "test/ai/forks.test.ts",
  "test/ai/chat.test.ts",
  "test/ai/chat-client.test.ts",
  "test/ai/chat-requests.test.ts",
];

it("the suites of the AI SDK pass with version 7 on the current Node", { timeout: 240_000 }, async () => {
  // Without the environment variables of this test run.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([key]) => !/^(VITEST|TEST_REPORT|NODE_ENV)/.test(key)),
  );
  const child = spawn(
    `${root}node_modules/node/bin/node`,
    [`${root}node_modules/vitest/vitest.mjs`, "run", "--reporter=json", ...SUITES],
    { cwd: root, env: { ...env, AI_SDK: "7" }, stdio: ["ignore", "pipe", "pipe"] },
  );
  let output = "";
  let errors = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (errors += data));
  const code = await new Promise((resolve, reject) => child.on("close", resolve).on("error", reject));
  const report = JSON.parse(output.slice(output.indexOf("{"))) as {
    numPassedTests: number;
    numFailedTests: number;
    testResults: { assertionResults: { status: string; fullName: string }[] }[];
  };
  const failed = report.testResults.flatMap(({ assertionResults }) =>
    assertionResults.filter(({ status }) => status !== "passed").map(({ fullName }) => fullName),
  );
  expect({ code, failed }, errors).toEqual({ code: 0, failed: [] });
  expect(report.numPassedTests).toBeGreaterThan(120);
});
