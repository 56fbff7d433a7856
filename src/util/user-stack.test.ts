import { inspect } from "node:util";
import { expect, it } from "vitest";
import { SavepointError } from "../errors.js";
import { hideOwnFrames } from "./user-stack.js";

const OWN = "file:///app/node_modules/savepoint/dist/";
const FRAMES = [
  "    at Object.refund (file:///app/shop.mjs:17:62)",
  "    at file:///app/shop.mjs:12:65",
  `    at ${OWN}chunks/library.js:10709:12`,
  "    at AsyncLocalStorage.run (node:async_hooks:346:14)",
  `    at scoped (${OWN}chunks/library.js:10705:44)`,
  "    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)",
  `    at async #effect (${OWN}chunks/library.js:11115:71)`,
];

function thrown(error: Error, frames: readonly string[]): Error {
  error.stack = [`${error.name}: ${error.message}`, ...frames].join("\n");
  return error;
}

it("a printed error shows the functions of the user, and those of Node that they were called by, but none of Savepoint", () => {
  const entry = "    at ModuleJob.run (node:internal/modules/esm/module_job:343:25)";
  const main = "    at async file:///app/shop.mjs:30:1";
  const printed = inspect(
    hideOwnFrames(thrown(new ReferenceError("ordr is not defined"), [...FRAMES, entry, main]), OWN),
  );
  expect(printed.split("\n")).toEqual(["ReferenceError: ordr is not defined", ...FRAMES.slice(0, 2), entry, main]);
});

it("the cause and the fields of a printed error are kept", () => {
  const cause = thrown(new TypeError("inside"), FRAMES);
  const error = Object.assign(thrown(new Error("outside", { cause }), FRAMES.slice(1)), { code: "E1" });
  const copy = hideOwnFrames(error, OWN) as Error;
  expect(copy).toBeInstanceOf(Error);
  const printed = inspect(copy);
  expect(printed).toContain("[cause]: TypeError: inside");
  expect(printed).toContain("code: 'E1'");
  expect(printed).not.toContain("library.js");
  expect(error.stack).toContain("library.js");
});

it("the stack of an error without a function of the user is kept, unless the error is one of Savepoint", () => {
  const frames = FRAMES.slice(2);
  expect((hideOwnFrames(thrown(new TypeError("a bug"), frames), OWN) as Error).stack).toContain("scoped");
  const error = thrown(new SavepointError("INVALID_STATE", "/f is a function."), frames);
  expect((hideOwnFrames(error, OWN) as Error).stack).toBe("SavepointError: /f is a function.");
});

it("values that are not errors, and errors whose fields cannot be read, are returned unchanged", () => {
  const hostile = new Error("hostile");
  Object.defineProperty(hostile, "stack", {
    get: () => {
      throw new Error("no");
    },
  });
  for (const each of ["text", undefined, { stack: "x" }, hostile]) expect(hideOwnFrames(each, OWN)).toBe(each);
});

it("no function is hidden if Savepoint was bundled into a file of the user", () => {
  const error = thrown(new Error("x"), FRAMES);
  expect(hideOwnFrames(error, "")).toBe(error);
});
