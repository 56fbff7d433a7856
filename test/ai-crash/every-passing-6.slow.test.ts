import { everyPassingSuite } from "./every-passing.js";

everyPassingSuite(6);
