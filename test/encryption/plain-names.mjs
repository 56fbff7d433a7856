// An encrypted store whose blobs are named by the SHA-256 of their plain bytes, as the conformance kit names them.
import { createHash } from "node:crypto";

/** @typedef {import("savepoint/store").Store} Store */
/** @typedef {import("savepoint/store").BlobUse} BlobUse */

/**
 * @param {Store} store
 * @param {Map<string, string>} names the names in the store, by those of the kit
 * @returns {Store}
 */
export function byPlainNames(store, names) {
  const below = (/** @type {string} */ hash) => names.get(hash) ?? hash;
  /** Learns the names of blobs that another process has written. */
  const learn = async () => {
    for (const name of await store.blobs({ after: "", limit: 100_000 })) {
      if ([...names.values()].includes(name)) continue;
      const bytes = await store.blob(name);
      if (!("unreadable" in bytes)) names.set(createHash("sha256").update(bytes).digest("hex"), name);
    }
  };
  const above = (/** @type {string} */ name) => [...names].find((entry) => entry[1] === name)?.[0] ?? name;
  const overrides = {
    /** @type {Store["commit"]} */
    commit: async (commit) => {
      try {
        const { blobs, ...rest } = commit;
        return await store.commit({ ...rest, ...(blobs && { blobs: blobs.map(rename) }) });
      } catch (error) {
        const { details } = /** @type {{ details?: { keys?: string[] } }} */ (error);
        if (details?.keys) Object.assign(details, { keys: details.keys.map(above) });
        throw error;
      }
    },
    /** @type {Store["blob"]} */
    blob: async (hash) => {
      if (!names.has(hash)) await learn();
      return store.blob(below(hash));
    },
    /** @type {Store["blobs"]} */
    blobs: async ({ after, limit }) => {
      await learn();
      const all = await store.blobs({ after: "", limit: 100_000 });
      return all
        .map(above)
        .filter((hash) => hash > after)
        .sort()
        .slice(0, limit);
    },
    /** @type {Store["dropBlobs"]} */
    dropBlobs: (hashes, options) => store.dropBlobs(hashes.map(below), options),
  };
  /** @param {BlobUse} use */
  const rename = ({ hash, bytes }) => {
    if (!bytes) return { hash: below(hash) };
    const name = /** @type {(bytes: Uint8Array) => string} */ (store.blobName)(bytes);
    names.set(hash, name);
    return { hash: name, bytes };
  };
  return Object.create(store, Object.getOwnPropertyDescriptors(overrides));
}
