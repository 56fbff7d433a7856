/** What a client without a valid token sees. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { adoptToken } from "../api/base.js";
import { loadMeta } from "../api/meta.js";
import { Command } from "../ui/states.js";
import { useAction } from "../ui/action.js";

export function SignIn(): JSX.Element {
  const [text, setText] = useState("");
  const { isBusy, run } = useAction();
  return (
    <main class="sign-in" id="content">
      <h1>Open the inspector with its URL</h1>
      <p>
        The URL that the command prints contains a token, which this page does not have. The token changes with every
        start.
      </p>
      <Command>npx savepoint ui</Command>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          run(async () => {
            adoptToken(text);
            await loadMeta();
          });
        }}
      >
        <label for="token">Or paste the URL here</label>
        <div class="row">
          <input
            id="token"
            type="password"
            autocomplete="off"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
          <button type="submit" class="button primary" disabled={isBusy || text.trim() === ""}>
            Open
          </button>
        </div>
      </form>
    </main>
  );
}
