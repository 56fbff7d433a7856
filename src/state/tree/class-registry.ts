/** What depends on the open store when values are encoded: classes whose instances can be stored, and the names of blobs. */
import { SavepointError } from "../../errors.js";
import { hashBytes } from "./hash.js";

/**
 * Defines how instances of a class are stored and restored. Passed in `classes` when a store is opened.
 *
 * @example
 * const money: StoredClass<Money> = {
 *   name: "Money",
 *   class: Money,
 *   encode: (money) => ({ amount: money.amount, currency: money.currency }),
 *   decode: (stored) => new Money(stored.amount, stored.currency),
 * };
 * const sp = await Savepoint.open("sqlite:./agents.db", { classes: [money] });
 */
export interface StoredClass<Instance = unknown, Stored = unknown> {
  /** The stored name of the class. States that contain instances can be read only while the name stays the same. */
  readonly name: string;
  /** The class. Only direct instances are stored this way: a subclass needs its own definition. */
  readonly class: abstract new (...args: never[]) => Instance;
  /** Converts an instance to any value that can be stored. */
  encode(instance: Instance): Stored;
  /** Restores an instance from the result of `encode`. */
  decode(stored: Stored): Instance;
}

/** A {@link StoredClass} of any types. */
export type AnyStoredClass = Omit<StoredClass, "encode" | "decode"> & {
  encode(instance: never): unknown;
  decode(stored: never): unknown;
};

/** The registered classes, by prototype and by name. */
export class ClassRegistry {
  readonly #byPrototype = new Map<object, StoredClass>();
  readonly #byName = new Map<string, StoredClass>();
  /** The name under which bytes are stored. */
  readonly nameBlob: (bytes: Uint8Array) => string;

  constructor(classes: readonly AnyStoredClass[] = [], nameBlob: (bytes: Uint8Array) => string = hashBytes) {
    this.nameBlob = nameBlob;
    for (const registered of classes as readonly StoredClass[]) {
      const { name } = registered;
      const prototype = registered.class.prototype as object;
      if (this.#byName.has(name) || this.#byPrototype.has(prototype)) {
        throw new SavepointError("INVALID_ARGUMENT", `The class ${name} is registered twice. Register it once.`);
      }
      this.#byName.set(name, registered);
      this.#byPrototype.set(prototype, registered);
    }
  }

  byPrototype(prototype: object): StoredClass | undefined {
    return this.#byPrototype.get(prototype);
  }

  /** The class with a stored name. Throws `INVALID_STATE` if it is not registered. */
  byName(name: string): StoredClass {
    const registered = this.#byName.get(name);
    if (registered) return registered;
    throw new SavepointError(
      "INVALID_STATE",
      `The state contains an instance of ${name}, which is not registered. Pass it in \`classes\` when you open the store.`,
    );
  }
}
