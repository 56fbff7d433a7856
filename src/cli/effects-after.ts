/** The tool calls that a run may make again after a rewind, a restore or a fork. */
import type { EffectSummary } from "../index.js";
import type { Cli } from "./cli.js";
import { formatCount } from "./format.js";

/** How many tool calls are listed. */
const MAX_LISTED = 20;

/** Lists the tool calls on stderr. */
export function listRepeats({ output }: Cli, effects: readonly EffectSummary[]): void {
  if (effects.length === 0) return;
  const calls = formatCount(effects.length, "tool call lies", "tool calls lie");
  const repeated = effects.length === 1 ? "it again, under a new key" : "them again, under new keys";
  const lines = [`${calls} after this checkpoint. A run that continues from it may make ${repeated}:`];
  for (const { name, arguments: given, step, seq, outcome } of effects.slice(0, MAX_LISTED)) {
    const shortened = given.length > 60 ? `${given.slice(0, 60)}…` : given;
    const where = seq === undefined ? `step ${step ?? "?"}, unfinished` : `step ${step ?? "?"}, #${seq}`;
    lines.push(`  ${name} ${shortened}  ${where}${outcome === "unknown" ? ", unknown outcome" : ""}`);
  }
  if (effects.length > MAX_LISTED) lines.push(`  and ${effects.length - MAX_LISTED} more`);
  for (const line of lines) output.warn(line);
}

/** Lists the tool calls and asks whether to continue. Asks nothing if there are none. */
export async function confirmRepeats(cli: Cli, effects: readonly EffectSummary[], question: string): Promise<boolean> {
  if (effects.length === 0) return true;
  listRepeats(cli, effects);
  return cli.confirm(question);
}
