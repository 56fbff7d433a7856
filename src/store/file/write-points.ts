/** The named points of a write, at which crash tests interrupt it. */
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
