/** Copying a thread within a store. */
import { SavepointError } from "../../index.js";
import { putCheckpoint } from "./put.js";
import { asIntegration, lastPut, type StoredFields, toThreadCheckpoint } from "./stored.js";
import type { Thread } from "./thread.js";
import type { Threads } from "./threads.js";
import { storedId } from "./address.js";
import { isWritesName } from "./writes.js";

/** Copies all checkpoints, oldest first. If that fails, the incomplete copy is deleted. Returns how many were copied. */
export async function copyThread(threads: Threads, source: Thread, target: Thread): Promise<number> {
  if (!(await threads.find(source.id))) {
    throw new SavepointError(
      "SESSION_NOT_FOUND",
      `Thread ${JSON.stringify(source.id)} cannot be copied, because it does not exist.`,
    );
  }
  if (await threads.isTaken(target.id)) {
    throw new SavepointError(
      "CONFLICT",
      `The id ${JSON.stringify(target.id)} is already in use. Copy to another id, or delete the thread first.`,
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
    const entry = toThreadCheckpoint(info);
    const loaded = entry && (await session.load({ seq: info.seq }));
    if (!entry || !loaded) continue;
    const address = { thread: target.id, namespace: entry.address.namespace };
    const annotations = (await session.annotations(info.seq)).get(info.seq) ?? new Map<string, unknown>();
    await putCheckpoint(target, {
      address,
      id: entry.id,
      parent: entry.parent,
      ...lastPut(loaded, annotations),
      source: info.trigger,
      nodes: (info.metadata as Partial<StoredFields>).nodes ?? [],
      pinned: info.pinned,
      onlyOnHead: false,
      mayDangle: true,
      writes: [],
    });
    const copy = target.open(address);
    for (const [name, value] of annotations) {
      if (isWritesName(name))
        await copy.annotate(
          storedId(address, entry.id),
          name,
          asIntegration(() => value),
          { status: info.status, ...(info.reason !== undefined && { reason: info.reason }) },
        );
    }
    copied++;
  }
  return copied;
}
