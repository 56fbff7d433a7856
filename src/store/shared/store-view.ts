/** Views of a store: the same store with some members replaced. */
import { SavepointError } from "../../errors.js";
import type { Store } from "../contract/index.js";

/** Members that replace those of a store. `undefined` hides an optional member. */
export type StoreOverrides = { readonly [Name in keyof Store]?: Store[Name] | undefined };

/**
 * A view of a store with other members. Every member that is not overridden is forwarded, including optional and future ones.
 * Methods are called on the store itself, because stores have private fields.
 */
export function overrideStore(store: Store, overrides: StoreOverrides): Store {
  const view = { ...overrides } as Store;
  for (let owner: object | null = store; owner && owner !== Object.prototype; owner = prototypeOf(owner)) {
    for (const name of Reflect.ownKeys(owner)) {
      if (Object.hasOwn(view, name) || name === "constructor") continue;
      const read = (): unknown => Reflect.get(store, name);
      const call = (...args: unknown[]): unknown => Reflect.apply(read() as () => unknown, store, args);
      Object.defineProperty(view, name, typeof read() === "function" ? { value: call } : { get: read });
    }
  }
  return view;
}

const prototypeOf = (object: object): object | null => Object.getPrototypeOf(object) as object | null;

/**
 * A view of a store that rejects every write with `READ_ONLY`. It has no text index, because updating one writes, no `reserve`,
 * which writes, and no `listen`, which a standby server does not support.
 */
export function readOnlyView(store: Store): Store {
  const reject = async (): Promise<never> => {
    throw storeReadOnly(store.url);
  };
  return overrideStore(store, {
    commit: reject,
    commitAtExit: undefined,
    retain: reject,
    dropBlobs: reject,
    compact: reject,
    scrub: reject,
    heal: reject,
    reserve: undefined,
    listen: undefined,
    texts: undefined,
  });
}

/** The error for a write to a store that was opened read-only. */
export function storeReadOnly(url: string): SavepointError<"READ_ONLY"> {
  return new SavepointError(
    "READ_ONLY",
    `The store was opened read-only: ${url} was not changed. Open it without \`readOnly\` to write.`,
  );
}
