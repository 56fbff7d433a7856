/** Copying a thread within a store. */
import { SavepointError } from "../../index.js";
import { putCheckpoint } from "./put.js";
import { joinCheckpoint, replacementIn, toThreadCheckpoint, writesName } from "./stored.js";
import type { Thread } from "./thread.js";
import type { Threads } from "./threads.js";
import { storedId } from "./address.js";

/** Copies all checkpoints in the order in which they were put. What was copied is removed should that fail. */
export async function copyThread(threads: Threads, source: Thread, target: Thread): Promise<number> {
  if (!(await threads.find(source.id))) {
    throw new SavepointError("SESSION_NOT_FOUND", `There is no thread ${JSON.stringify(source.id)} to copy.`);
  }
  if (await threads.isTaken(target.id)) {
    throw new SavepointError(
      "CONFLICT",
      `There is something under the id ${JSON.stringify(target.id)} already. Copy to another id, or delete it first.`,
    );
  }
  target.rebind();
  try {
    return await copyCheckpoints(source, target);
  } catch (error) {
    await threads.delete(target.id);
    throw error;
  }
}

async function copyCheckpoints(source: Thread, target: Thread): Promise<number> {
  const session = source.openWithoutBranch();
  let copied = 0;
  for await (const info of session.history({ allBranches: true, order: "oldest" })) {
    const found = toThreadCheckpoint(info);
    const loaded = found && (await session.load({ seq: info.seq }));
    if (!found || !loaded) continue;
    const place = { thread: target.id, namespace: found.place.namespace };
    const attached = (await session.annotations(info.seq)).get(info.seq) ?? new Map<string, unknown>();
    const replaced = replacementIn(attached);
    await putCheckpoint(target, {
      place,
      id: found.id,
      parent: found.parent,
      state: replaced?.state ?? joinCheckpoint(loaded),
      metadata: replaced ? replaced.metadata : found.metadata,
      source: info.trigger,
      pinned: info.pinned,
      onlyOnHead: false,
      mayDangle: true,
    });
    const copy = target.open(place);
    for (const [name, value] of attached) {
      if (name.startsWith(writesName(""))) await copy.annotate(storedId(place, found.id), name, () => value);
    }
    copied++;
  }
  return copied;
}
