import { everyPointSuite } from "./every-point.js";

everyPointSuite(6);
