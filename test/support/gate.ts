/** A promise that the test decides. */
export interface Gate<T = void> {
  readonly promise: Promise<T>;
  open(value: T): void;
  fail(error: Error): void;
}

export function createGate<T = void>(): Gate<T> {
  let [open, fail]: [(value: T) => void, (error: Error) => void] = [() => {}, () => {}];
  const promise = new Promise<T>((resolve, reject) => ([open, fail] = [resolve, reject]));
  promise.catch(() => {});
  return { promise, open: (value) => open(value), fail: (error) => fail(error) };
}
