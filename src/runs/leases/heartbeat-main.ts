/** The program of the thread that renews the lease. The build makes one self-contained script of it: heartbeat-program.ts. */
import { workerData } from "node:worker_threads";
import { openStore } from "../../store/index.js";
import { parentThread, setPackagePaths } from "../../util/index.js";
import { type HeartbeatData, runHeartbeat } from "./heartbeat.js";

const data = workerData as HeartbeatData;
setPackagePaths(data.packages);
const { port, end } = parentThread();
runHeartbeat(data, { port, openStore, end });
