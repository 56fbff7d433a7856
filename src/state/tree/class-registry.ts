/** The classes a caller has taught the codec, beside those it knows. */
import { SavepointError } from "../../errors.js";

/**
 * How instances of a class are stored and made again.
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
  /** The name it is stored under. Keep it for as long as states that contain it are to be read. */
  readonly name: string;
  /** Only direct instances are taken: a subclass wants an entry of its own. */
  readonly class: abstract new (...args: never[]) => Instance;
  /** Gives what is stored: any value that can itself be stored. */
  encode(instance: Instance): Stored;
  /** Makes the instance again from what `encode` gave. */
  decode(stored: Stored): Instance;
}

/** A {@link StoredClass} of any types, as the registry keeps it. */
export type AnyStoredClass = Omit<StoredClass, "encode" | "decode"> & {
  encode(instance: never): unknown;
  decode(stored: never): unknown;
};

export class ClassRegistry {
  readonly #byPrototype = new Map<object, StoredClass>();
  readonly #byName = new Map<string, StoredClass>();

  constructor(classes: readonly AnyStoredClass[] = []) {
    for (const known of classes as readonly StoredClass[]) {
      const prototype = known.class.prototype as object;
      if (this.#byName.has(known.name) || this.#byPrototype.has(prototype)) {
        throw new SavepointError("INVALID_ARGUMENT", `The class ${known.name} is registered twice. Register it once.`);
      }
      this.#byName.set(known.name, known);
      this.#byPrototype.set(prototype, known);
    }
  }

  byPrototype(prototype: object): StoredClass | undefined {
    return this.#byPrototype.get(prototype);
  }

  byName(name: string): StoredClass {
    const known = this.#byName.get(name);
    if (known) return known;
    throw new SavepointError(
      "INVALID_STATE",
      `The state contains an instance of ${name}, which is not registered here. Pass it in \`classes\` when you open the store.`,
    );
  }
}
