#!/usr/bin/env node
/** The `savepoint` executable: runs one command on the streams and signals of this process. */
import { processIo } from "./io.js";
import { main } from "./main.js";

process.exitCode = await main(process.argv.slice(2), processIo());
