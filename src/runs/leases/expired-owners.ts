/** Cleanup of owner records. */
import { isSavepointError } from "../../errors.js";
import { ALL_OWNERS, decodeOwner, ownedBy, ownerKey } from "../../records/index.js";
import { scan, type Store } from "../../store/index.js";

/** Records of ended processes are kept for a day, in case a clock was wrong. In milliseconds. */
const KEEP_FOR = 86_400_000;

/** Deletes the records of owners that ended long ago and hold no branch. By those that do, their branches are found. */
export async function deleteExpiredOwners(store: Store, now: number): Promise<void> {
  for await (const record of scan(store, ALL_OWNERS)) {
    const { key } = record;
    if (!("value" in record) || decodeOwner(record.value).until > now - KEEP_FOR) continue;
    const [held] = await store.list(ownedBy(key.slice(ownerKey("").length)), { limit: 1 });
    if (held) continue;
    try {
      await store.commit({ checks: [{ key, value: record.value }], deletes: [key] });
    } catch (error) {
      // The owner is alive after all, or another process has deleted the record.
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
}
