import type { Commit, Store } from "../../src/store/contract/contract.js";

/** The same store, which reports each commit before it is made. */
export function countCommits(store: Store, onCommit: () => void): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name !== "commit") return value.bind(target) as unknown;
      return (commit: Commit) => {
        onCommit();
        return target.commit(commit);
      };
    },
  });
}
