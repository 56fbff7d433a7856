// Removes `node_modules/.bin/node` after an install in this repository.
//
// The dev dependency `node` brings a current Node for `npm run test:all`, but npm also links it into
// `node_modules/.bin`, which comes first on the PATH of every npm script: `npm test` would silently run on that Node
// and never on the developer's own. The binary itself stays, at `node_modules/node/bin/node`.
//
// It runs as npm's `dependencies` script: after whatever changed `node_modules` here, and never where Savepoint is
// installed as a package. (`prepare` would miss `npm install <package>`, which brings the link back.)
import { rmSync } from "node:fs";

// On Windows npm writes two shims beside the plain one.
for (const name of ["node", "node.cmd", "node.ps1"]) {
  rmSync(new URL(`../node_modules/.bin/${name}`, import.meta.url), { force: true });
}
