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
  for (const name of memberNames(store)) {
    if (Object.hasOwn(view, name)) continue;
    const read = (): unknown => Reflect.get(store, name);
    const call = (...args: unknown[]): unknown => Reflect.apply(read() as () => unknown, store, args);
    Object.defineProperty(view, name, typeof read() === "function" ? { value: call } : { get: read });
  }
  return view;
}

/** A store whose calls go to another one, which can be replaced while it is used. */
export class StoreSwitch {
  /** A proxy with the members of the first target. */
  readonly store: Store;
  /** The store that gets the calls. */
  target: Store;
  #pause: Promise<void> | undefined;

  constructor(first: Store) {
    this.target = first;
    const members: Record<PropertyKey, unknown> = {};
    for (const name of memberNames(first)) {
      const read = (): unknown => Reflect.get(this.target, name);
      const apply = (args: unknown[]): unknown => Reflect.apply(read() as () => unknown, this.target, args);
      const call = (...args: unknown[]): unknown => this.#pause?.then(() => apply(args)) ?? apply(args);
      const descriptor = typeof read() === "function" ? { value: call } : { get: read };
      Object.defineProperty(members, name, { ...descriptor, enumerable: true });
    }
    this.store = members as unknown as Store;
  }

  /** Makes all calls wait until the returned function is called. */
  pause(): () => void {
    let end = (): void => {};
    this.#pause = new Promise((resolve) => (end = resolve));
    return () => {
      this.#pause = undefined;
      end();
    };
  }
}

/** The names of all members of a store, also of those that it inherits. */
function memberNames(store: Store): PropertyKey[] {
  const names = new Set<PropertyKey>();
  for (let owner: object | null = store; owner && owner !== Object.prototype; owner = prototypeOf(owner)) {
    for (const name of Reflect.ownKeys(owner)) if (name !== "constructor") names.add(name);
  }
  return [...names];
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
