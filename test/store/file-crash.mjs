// Opened by the process that is killed: plain JavaScript, and the build, because that is what Node runs.
import { withTestHooks } from "../support/test-hooks.mjs";

const { openFileStore } = await import(new URL("../../dist/store.js", import.meta.url).href);

/** @type {import("savepoint/testing").OpenForCrash} */
export const openForCrash = (location, probe) => openFileStore(location, withTestHooks({ probe }));
