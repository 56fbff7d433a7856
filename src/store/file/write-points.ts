/** Where a write can be interrupted. */
export const WRITE_POINTS = [
  "locked",
  "checked",
  "torn",
  "written",
  "synced",
  "logged",
  "replace:written",
  "replace:renamed",
  "compact:logged",
] as const;
