/** Starts the page. */
import { render } from "preact";
import { readToken } from "./api/base.js";
import { loadMeta } from "./api/meta.js";
import { toApiFailure } from "./api/resource.js";
import { App } from "./app/app.js";
import { Failure } from "./ui/states.js";

const root = document.getElementById("app") as HTMLElement;

async function start(): Promise<void> {
  await readToken();
  render(<App />, root);
  await loadMeta();
}

function startOrExplain(): void {
  start().catch((error: unknown) => {
    const failure = toApiFailure(error);
    // Without a token the page asks for it.
    if (failure.status !== 401) render(<Failure failure={failure} retry={startOrExplain} />, root);
  });
}

startOrExplain();
