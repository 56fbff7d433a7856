// Two faults that only a crash shows, for the test that the kit notices them. The location names the fault.
import { openForCrash as open } from "./sqlite-crash.mjs";

/** @type {import("savepoint/testing").OpenForCrash} */
export const openForCrash = async (location, probe) => {
  const store = await open(location, probe);
  const commit = store.commit.bind(store);
  if (location.includes("acknowledges-early")) {
    store.commit = (one) => {
      void commit(one);
      return Promise.resolve({ firsts: [] });
    };
  } else {
    store.commit = async ({ items = [], ...rest }) => {
      await commit(rest);
      return commit({ items });
    };
  }
  return store;
};
