import { parseCount, collectValues } from "../arguments.js";
import { openBrowser } from "../open-browser.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly port?: number;
  readonly host?: string;
  readonly allowHost?: readonly string[];
  readonly write?: boolean;
  readonly open?: boolean;
}

export const ui = defineVerb<Options>({
  name: "ui",
  group: "Inspect",
  summary: "open the inspector: a web page for everything in the store",
  examples: [
    ["savepoint ui", "read-only, in the browser"],
    ["savepoint ui --write", "allows answers, forks, rewinds and other changes"],
    ["savepoint ui --port 0 --no-open", "only prints the URL, on any free port"],
  ],
  declare(command) {
    command
      .option("-p, --port <number>", "the port; 0 for any (default: 7433, or any if that is in use)", parseCount)
      .option("--host <address>", "the address to listen on (default: 127.0.0.1, this machine only)")
      .option("--allow-host <name>", "another name under which the server is reached; repeatable", collectValues)
      .option("--write", "allow changes (default: the store is opened read-only)")
      .option("--no-open", "do not open the browser");
  },
  async run(cli, _, { port, host = "127.0.0.1", allowHost = [], write = false, open = true }) {
    // Loaded here, so that other verbs start without it.
    const { startUiServer } = await import("../ui-server.js");
    const interrupted = cli.interceptInterruption();
    const sp = await (write ? cli.open() : cli.read());
    const server = await startUiServer(sp, { port, host, names: allowHost, write });
    await cli.output.result({ url: server.url, write }, () => server.url);
    if (host !== "127.0.0.1" && host !== "localhost" && host !== "::1") {
      cli.output.warn("Everyone who can reach this address and knows the URL can see the store. There is no TLS.");
    }
    const isOpen = open && (await openBrowser(server.openUrl, cli.io));
    const how = isOpen ? "The browser shows it." : "Open this URL in a browser.";
    cli.output.note(
      `${how} ${write ? "Changes are allowed." : "Read-only: --write allows changes."} Press Ctrl-C to stop.`,
    );
    await interrupted;
    await server.close();
  },
});
