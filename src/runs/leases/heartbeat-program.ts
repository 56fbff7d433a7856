/**
 * The program of the thread that renews the lease, as a script.
 *
 * The build replaces this module by one that contains the script of `heartbeat-main.ts` with the stores, so that the thread
 * also starts in programs that a bundler has made one file of. It is loaded when a process first runs something. There is no
 * script in the sources, because Node cannot run them: there, the event loop renews the lease.
 */
export const HEARTBEAT_PROGRAM: string | undefined = undefined;
