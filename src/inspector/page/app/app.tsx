/** The page: navigation, and the view of the current path. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { isSignedOut } from "../api/base.js";
import { meta } from "../api/meta.js";
import { Toasts } from "../ui/toast.js";
import { Help } from "./help.js";
import { Navigation } from "./navigation.js";
import { place } from "./router.js";
import { installShortcuts, isHelpOpen } from "./shortcuts.js";
import { SignIn } from "./sign-in.js";
import { CurrentView } from "./views.js";

export function App(): JSX.Element {
  const [isMenuOpen, setMenuOpen] = useState(false);
  useEffect(installShortcuts, []);
  const { segments } = place.value;
  const path = segments.join("/");
  // The menu of a narrow window covers the view.
  useEffect(() => setMenuOpen(false), [path]);
  if (isSignedOut.value) return <SignIn />;
  return (
    <>
      <a class="skip" href="#content" onClick={focusContent}>
        Skip to content
      </a>
      <div class="app">
        <Navigation isOpen={isMenuOpen} onToggle={() => setMenuOpen(!isMenuOpen)} />
        <main id="content" tabIndex={-1} inert={isMenuOpen}>
          {meta.value !== undefined && <CurrentView place={place.value} />}
        </main>
      </div>
      <Toasts />
      {isHelpOpen.value && <Help />}
    </>
  );
}

/** The fragment of the URL belongs to the token, so the link does not use it. */
function focusContent(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}
