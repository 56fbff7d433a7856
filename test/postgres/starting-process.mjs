// Starts a server, prints where it is, and waits to be killed.
import { startPostgres } from "./server.mjs";

const { url, folder } = await startPostgres();
console.log(JSON.stringify({ url, folder }));
