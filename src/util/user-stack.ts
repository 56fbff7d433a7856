/** Stacks without the functions of this package, which are irrelevant to an error in the user's code. */
import { readFileSync } from "node:fs";
import { SavepointError } from "../errors.js";

const MAX_CAUSES = 4;

/**
 * A copy of an error for printing. Its stack, and those of its causes, do not contain the functions of this package, nor those of
 * Node between them. A stack without any function of the user stays, unless the error is one of Savepoint, whose message says
 * what to do. Returns every other value as it is. Never throws.
 */
export function hideOwnFrames(thrown: unknown, folder = (ownFolder ??= findOwnFolder()), depth = 0): unknown {
  if (!(thrown instanceof Error) || folder === "" || depth === MAX_CAUSES) return thrown;
  try {
    const { stack, cause } = thrown;
    const fields = Object.getOwnPropertyDescriptors(thrown) as PropertyDescriptorMap;
    const hidden = { configurable: true, writable: true, enumerable: false };
    if (typeof stack === "string") {
      fields["stack"] = { ...hidden, value: userStack(stack, thrown instanceof SavepointError, folder) };
    }
    if (fields["cause"]) fields["cause"] = { ...hidden, value: hideOwnFrames(cause, folder, depth + 1) };
    return Object.create(Object.getPrototypeOf(thrown) as object, fields);
  } catch {
    // A getter of the error has thrown.
    return thrown;
  }
}

/** Enough for the functions of this package that call each other for every level of a value. */
const MAX_FRAMES = 1000;

/**
 * Creates an error about a value of the user. Its stack shows where the user has passed the value: the functions of this package that
 * read it are left out. By default a stack has ten functions, and a nested value takes more.
 */
export function withUserStack<E extends Error>(create: () => E): E {
  const limit = Error.stackTraceLimit;
  // An assignment would throw if the intrinsics are frozen.
  Reflect.set(Error, "stackTraceLimit", MAX_FRAMES);
  try {
    const error = create();
    const { stack } = hideOwnFrames(error) as Error;
    Object.defineProperty(error, "stack", { value: stack, writable: true, configurable: true, enumerable: false });
    return error;
  } finally {
    Reflect.set(Error, "stackTraceLimit", limit);
  }
}

function userStack(stack: string, isOurs: boolean, folder: string): string {
  const isFrame = (line: string): boolean => /^\s+at /.test(line);
  const isOwn = (line: string): boolean => isFrame(line) && line.includes(folder);
  const isOfNode = (line: string): boolean => /[( ]node:|\(native\)|<anonymous>\)?$/.test(line);
  const lines = stack.split("\n");
  const isUsers = (line: string): boolean => isFrame(line) && !isOwn(line) && !isOfNode(line);
  if (!lines.some(isUsers)) return isOurs ? lines.filter((line) => !isFrame(line)).join("\n") : stack;
  // From the last line to the first: functions of Node that this package has called are before its own functions, and are removed
  // with them.
  const kept: string[] = [];
  let isRemoved = true;
  for (const line of lines.reverse()) {
    isRemoved = isOwn(line) || (isRemoved && isFrame(line) && isOfNode(line));
    if (!isRemoved) kept.unshift(line);
  }
  return kept.join("\n");
}

let ownFolder: string | undefined;

/**
 * The folder of this package in a stack, `dist/` or `src/`; empty if its code has been bundled into a file of the user.
 *
 * The path is not resolved with `new URL("…", import.meta.url)`: webpack would look for that file when it bundles the package.
 */
function findOwnFolder(): string {
  try {
    const { url } = import.meta;
    const end = Math.max(url.lastIndexOf("/dist/"), url.lastIndexOf("/src/"));
    const manifest = JSON.parse(readFileSync(new URL(`${url.slice(0, end)}/package.json`), "utf8")) as {
      name?: unknown;
    };
    return manifest.name === "savepoint" ? url.slice(0, url.indexOf("/", end + 1) + 1) : "";
  } catch {
    return "";
  }
}
