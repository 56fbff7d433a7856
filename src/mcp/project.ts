/**
 * The project that a server works for. Sessions that are saved through the server carry it in the metadata of their
 * checkpoints, so that several projects can share a store and each resumes its own work.
 */
import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/** The key in the metadata of a checkpoint. */
const KEY = "project";

/**
 * The name of a project.
 * @param project a folder, for which the root of its git working tree is used if it has one; or any other name
 */
export function resolveProject(project: string = process.cwd()): string {
  if (!isFolder(project)) return project;
  const folder = realpathSync.native(project);
  for (let root = folder; ; root = dirname(root)) {
    // A file in a linked working tree.
    if (existsSync(join(root, ".git"))) return root;
    if (root === dirname(root)) return folder;
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** The project of a checkpoint; `undefined` if it was not saved through a server. */
export function projectOf(
  info: { readonly metadata: Readonly<Record<string, unknown>> } | undefined,
): string | undefined {
  const project = info?.metadata[KEY];
  return typeof project === "string" ? project : undefined;
}

/** Metadata of a checkpoint that the server saves. A `project` that a model sends is replaced. */
export function withProject(metadata: unknown, project: string): Record<string, unknown> {
  return { ...(metadata as Record<string, unknown> | undefined), [KEY]: project };
}
