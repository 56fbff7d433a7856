/**
 * The number of elements at the beginning of a list for which `isBefore` holds, found by binary search. It must not hold for
 * any element after the first one for which it does not.
 */
export function partitionPoint<T>(list: readonly T[], isBefore: (element: T) => boolean): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(list[middle] as T)) low = middle + 1;
    else high = middle;
  }
  return low;
}
