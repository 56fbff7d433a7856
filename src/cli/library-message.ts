/** Messages of the library as the command line prints them. */
import type { SavepointError } from "../index.js";
import { suggestCommand } from "./shell.js";

/** Removes the advice to open the store with other options: only a program can pass them. */
export function withoutOpenAdvice(message: string): string {
  return message.replace(/ Check the path, or open it without .*$/, "");
}

/** The message of an error. Advice for programs is replaced by advice for the command line. */
export function messageForCli({ code, message, details }: SavepointError): string {
  if (code === "STORE_NOT_FOUND") {
    return `${withoutOpenAdvice(message)} Name another store with --store, or create one with "savepoint init".`;
  }
  const { sessionId } = details;
  if (typeof sessionId !== "string") return message;
  const status = `"${suggestCommand("status", [sessionId])}" prints its status.`;
  return message.replace("Read its status with sp.sessions.load().", () => status);
}
