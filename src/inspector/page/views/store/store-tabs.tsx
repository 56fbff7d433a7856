/** The head of the views about the whole store. */
import type { JSX } from "preact";
import { paths } from "../../app/router.js";
import { TabLinks } from "../../ui/tabs.js";

export function StoreTabs({ current }: { readonly current: "overview" | "retention" | "damage" }): JSX.Element {
  return (
    <>
      <header class="view-head">
        <h1>Store</h1>
      </header>
      <TabLinks
        label="Parts of the store"
        tabs={[
          { name: "Overview", to: paths.store, isCurrent: current === "overview" },
          { name: "Retention", to: paths.retention, isCurrent: current === "retention" },
          { name: "Damage", to: paths.damage, isCurrent: current === "damage" },
        ]}
      />
    </>
  );
}
