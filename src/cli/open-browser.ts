/** Opens a URL in the browser of the user. */
import { spawn } from "node:child_process";
import { platform } from "node:os";
import type { CliIo } from "./io.js";

/** Starts the browser. Returns `false` if there is no desktop, or no program that opens URLs. */
export async function openBrowser(url: string, { env }: Pick<CliIo, "env">): Promise<boolean> {
  const opener = openerOf(platform(), env);
  if (!opener) return false;
  const [command = "", ...options] = opener;
  return new Promise((resolve) => {
    const child = spawn(command, [...options, url], { stdio: "ignore", detached: true });
    child.once("error", () => resolve(false));
    child.once("spawn", () => resolve(true));
    child.unref();
  });
}

/** The program that opens URLs, with its options. */
export function openerOf(system: string, env: CliIo["env"]): readonly string[] | undefined {
  if (system === "darwin") return ["open"];
  // No shell: it would interpret characters of the URL.
  if (system === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  // Over SSH, the browser would open on the wrong machine.
  const hasDesktop = (env["DISPLAY"] ?? env["WAYLAND_DISPLAY"] ?? env["WSL_DISTRO_NAME"]) !== undefined;
  return hasDesktop && env["SSH_CONNECTION"] === undefined ? ["xdg-open"] : undefined;
}
