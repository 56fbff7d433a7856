/** Releases what unfinished imports have stored under numbers that no session or conversation uses. */
import { scan, type Store } from "../store/index.js";
import type { Context } from "../context.js";
import {
  ALL_CONVERSATIONS,
  ALL_REMOVED_CONVERSATIONS,
  ALL_IMPORTS,
  ALL_SESSION_NUMBERS,
  garbageKey,
  type ImportRecord,
  decodeConversation,
  decodeNumbers,
  trailingNumberOf,
} from "../records/index.js";

/** An import that was not continued for this long is abandoned. */
const ABANDONED_AFTER = 24 * 3_600_000;

/** Turns what abandoned imports have stored into garbage. */
export async function releaseAbandonedImports(context: Context): Promise<void> {
  for await (const record of scan(context.store, ALL_IMPORTS)) {
    if (!("value" in record)) continue;
    const { at, numbers } = JSON.parse(record.value) as ImportRecord;
    if (Date.now() - at <= ABANDONED_AFTER) continue;
    await releaseImport(
      context,
      record.key,
      numbers.map(([number]) => number),
    );
  }
}

/** Ends an import: those of its numbers that are not in use become garbage. */
export async function releaseImport({ store }: Context, key: string, numbers: Iterable<number>): Promise<void> {
  const staged = [...numbers];
  const used = staged.length > 0 ? await numbersInUse(store) : new Set<number>();
  const puts = staged.filter((number) => !used.has(number)).map((number) => ({ key: garbageKey(number), value: "" }));
  await store.commit({ deletes: [key], puts });
}

/** The numbers of sessions and conversations, and of removed conversations whose messages a checkpoint still needs. */
async function numbersInUse(store: Store): Promise<Set<number>> {
  const used = new Set<number>();
  for await (const { key } of scan(store, ALL_SESSION_NUMBERS))
    used.add(decodeNumbers(key.slice(1), 1).numbers[0] as number);
  for await (const { key } of scan(store, ALL_REMOVED_CONVERSATIONS)) used.add(trailingNumberOf(key));
  for await (const record of scan(store, ALL_CONVERSATIONS)) {
    if (!("value" in record) || record.key.split("\t").length > 2) continue;
    const { number, base } = decodeConversation(record.value);
    for (const each of [number, ...base.map(({ tape }) => tape)]) used.add(each);
  }
  return used;
}
