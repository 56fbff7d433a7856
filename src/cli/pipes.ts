/** Whoever reads what is printed, such as `head`, may have seen enough: that is no failure. */
let closed = false;

/** Says whether nobody reads any more. */
export function isClosed(): boolean {
  return closed;
}

/** Before anything is printed. */
export function watchPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      if (stream === process.stdout) closed = true;
    });
  }
}

/** Prints, and waits until there is room for more. */
export async function print(data: string | Uint8Array): Promise<void> {
  if (closed || process.stdout.write(data)) return;
  await new Promise<void>((resolve) => {
    const events = ["drain", "close", "error"] as const;
    const done = (): void => {
      for (const event of events) process.stdout.off(event, done);
      resolve();
    };
    for (const event of events) process.stdout.on(event, done);
  });
}
