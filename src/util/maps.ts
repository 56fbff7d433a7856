/** Small operations with maps. */

/** The value of a key in a map. If there is none, it is created and added. */
export function getOrAdd<K, V>(map: Map<K, V>, key: K, create: () => V): V {
  const existing = map.get(key);
  if (existing !== undefined) return existing;
  const added = create();
  map.set(key, added);
  return added;
}

/** The elements with these keys, in the order of the keys; `undefined` for a missing one. */
export function pickByKey<K, T>(
  keys: readonly K[],
  elements: readonly T[],
  keyOf: (element: T) => K,
): (T | undefined)[] {
  const byKey = new Map(elements.map((element) => [keyOf(element), element]));
  return keys.map((key) => byKey.get(key));
}

/** Adds a value to the list of a key. */
export function addToList<Key, Value>(lists: Map<Key, Value[]>, key: Key, value: Value): void {
  getOrAdd(lists, key, (): Value[] => []).push(value);
}
