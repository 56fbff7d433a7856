/**
 * Threads whose program is a string, so that they also start where a bundler has made one file of a program and the package.
 * The program is CommonJS: all runtimes run that as a string, and it can `require` a path.
 */
import { type MessagePort, parentPort, Worker } from "node:worker_threads";

/**
 * Starts a thread that does not keep the process running. Throws if the runtime does not allow it.
 *
 * @param program a script, or the URL of one
 * @param onMessage called with its messages. A listener that is added later would keep the process running
 */
export function startThread<Message>(
  name: string,
  program: string | URL,
  workerData: object,
  onMessage: (message: Message) => void,
): Worker {
  const worker = new Worker(program, { name, eval: typeof program === "string", workerData, execArgv: [] });
  worker.on("message", onMessage);
  worker.unref();
  return worker;
}

/** The connection of a thread to the one that started it, and how it ends itself. */
export function parentThread(): { readonly port: MessagePort; readonly end: () => void } {
  if (!parentPort) throw new Error("This program runs in a thread of Savepoint only.");
  const port = parentPort;
  // On Deno the port has no method to close it.
  const end = (): void => ("close" in port ? port.close() : process.exit());
  return { port, end };
}
