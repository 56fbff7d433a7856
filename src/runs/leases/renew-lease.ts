/**
 * Renews the lease of a process. Several threads may do so, and a commit may be in flight for long. So each commit checks the
 * value that it replaces, and a late one never shortens the lease.
 */
import { isSavepointError } from "../../errors.js";
import { decodeOwner, encodeOwner, type OwnerRecord } from "../../records/index.js";
import type { Store } from "../../store/index.js";

/**
 * Replaces the owner record, unless the stored one lasts longer.
 *
 * @param lastValue the value that the caller last read or wrote
 * @returns the value that is stored now
 */
export async function renewLease(
  store: Store,
  key: string,
  owner: OwnerRecord,
  lastValue: string | undefined,
): Promise<string> {
  const value = encodeOwner(owner);
  for (let before = lastValue; ;) {
    try {
      await store.commit({ checks: [{ key, value: before }], puts: [{ key, value }] });
      return value;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
    const [record] = await store.get([key]);
    if (record && !("value" in record)) {
      // A damaged record cannot be checked.
      await store.commit({ puts: [{ key, value }] });
      return value;
    }
    if (record && decodeOwner(record.value).until >= owner.until) return record.value;
    before = record?.value;
  }
}
