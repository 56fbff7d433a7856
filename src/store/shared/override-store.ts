/** Views of a store that replace some of its members. */
import type { Store } from "../contract/index.js";

/**
 * A view of a store with other implementations of some members. Every other member is forwarded, including optional and
 * future ones. Methods are called on the store itself, because stores have private fields.
 */
export function overrideStore(store: Store, members: Partial<Store>): Store {
  const view = { ...members } as Store;
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
