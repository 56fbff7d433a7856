import type { RekeyOptions, RekeyReport, Savepoint } from "../../index.js";
import type { Cli } from "../cli.js";
import { usageError } from "../errors.js";
import { EXIT, type ExitCode } from "../exit-codes.js";
import { formatCount } from "../format.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly encrypt?: boolean;
}

export const rekey = defineVerb<Options>({
  name: "rekey",
  group: "Maintain",
  summary: "change the key of an encrypted store, or encrypt a plain one",
  examples: [
    [
      "savepoint rekey",
      "change to the first key of the file in SAVEPOINT_KEY_FILE, which must also contain the old key",
    ],
    ["savepoint rekey --encrypt", "encrypt a plain store, while no other process uses it"],
  ],
  declare(command) {
    command.option("--encrypt", "encrypt a plain store; rewrites the whole store, and asks first");
  },
  async run(cli, _, { encrypt = false }) {
    const { encryption } = await cli.readKeys();
    if (!encryption) {
      throw usageError("Name the key file in SAVEPOINT_KEY_FILE. To create one: savepoint keygen ~/agents.keys");
    }
    if (!encrypt) return describe(cli, await work(cli, await cli.open(), {}));
    const sp = await cli.openPlain();
    const question = `Encrypt ${sp.url}? It can then be read only with the key. This rewrites the store.`;
    if (!(await cli.confirm(question))) return EXIT.ok;
    return describe(cli, await work(cli, sp, { to: encryption }));
  },
});

function work(cli: Cli, sp: Savepoint, options: RekeyOptions): Promise<RekeyReport> {
  const isNew = options.to !== undefined;
  const [label, unit] = isNew ? (["Encrypting", "tapes"] as const) : (["Changing keys", "data keys"] as const);
  return cli.withProgress({ label, unit, total: undefined }, (onProgress) =>
    sp.rekey({ ...options, onProgress: ({ done }) => onProgress({ "data keys": done, tapes: done }) }),
  );
}

async function describe(cli: Cli, report: RekeyReport): Promise<ExitCode> {
  await cli.output.result(report, () => {
    const { keys, total } = report;
    return `The store is encrypted with the current key: ${formatCount(keys, "data key")} of ${total.toLocaleString("en-US")} changed.`;
  });
  if (report.pending !== undefined) cli.output.note(report.pending);
  return report.pending === undefined ? EXIT.ok : EXIT.partial;
}
