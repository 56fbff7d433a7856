/** The harness of an encrypted store, made of that of the store below. */
import type { StoreHarness } from "savepoint/testing";
import { encryptStore, openDataKeys, parseKeyRing } from "../../src/encryption/index.js";
import type { Store } from "../../src/store.js";
import { byPlainNames } from "./plain-names.mjs";

/** The key of all stores of the kit. */
export const KIT_KEY = new Uint8Array(32).fill(7);

/** The names of blobs, which the kit names by the SHA-256 of their bytes. */
const names = new Map<string, string>();

export async function encryptedView(store: Store): Promise<Store> {
  return byPlainNames(encryptStore(store, await openDataKeys(store, parseKeyRing({ key: KIT_KEY }), true)), names);
}

/** @param inner its crash module opens the store encrypted */
export function encryptedHarness(inner: StoreHarness): StoreHarness {
  const [reopen, damage] = [inner.reopen?.bind(inner), inner.damage?.bind(inner)];
  const { crash } = inner;
  return {
    setup: async () => {
      const setup = await inner.setup();
      return { ...setup, store: await encryptedView(setup.store) };
    },
    ...(reopen && { reopen: async (location) => encryptedView(await reopen(location)) }),
    ...(damage && {
      damage: async (location, target, how) => {
        if (target.kind === "blob") {
          return damage(location, { kind: "blob", hash: names.get(target.hash) ?? target.hash }, how);
        }
        return damage(location, "tape" in target ? { ...target, tape: `e${target.tape}` } : target, how);
      },
    }),
    ...(crash && { crash }),
  };
}
