// Opened by the process that is killed: the store of the kit, encrypted.
import { openForCrash as openPlain } from "../store/file-crash.mjs";
import { encryptForCrash } from "./crash-view.mjs";

/** @type {import("savepoint/testing").OpenForCrash} */
export const openForCrash = async (location, probe) => encryptForCrash(await openPlain(location, probe));
