import { describeKills } from "./matrix.js";
import { operations } from "./operations.mjs";

describeKills(Object.keys(operations).filter((name) => /^conversations|search/.test(name)));
