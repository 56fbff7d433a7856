/**
 * Renewing the lease of a process. Several of its threads may, and what they write may be on its way for long. So it never
 * takes the place of anything but what it was made for, and a lease is not shortened by an old message.
 */
import { isSavepointError } from "../../errors.js";
import { decodeOwner, encodeOwner, type OwnerRecord } from "../../records/index.js";
import type { Store } from "../../store/index.js";

/**
 * @param known what was last known to be in the store
 * @returns what is
 */
export async function renewLease(
  store: Store,
  key: string,
  owner: OwnerRecord,
  known: string | undefined,
): Promise<string> {
  const value = encodeOwner(owner);
  for (let before = known; ;) {
    try {
      await store.commit({ checks: [{ key, value: before }], puts: [{ key, value }] });
      return value;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
    const [record] = await store.get([key]);
    if (record && !("value" in record)) {
      // A damaged one says nothing, and cannot be checked.
      await store.commit({ puts: [{ key, value }] });
      return value;
    }
    if (record && decodeOwner(record.value).until >= owner.until) return record.value;
    before = record?.value;
  }
}
