/** What the page must know before anything else. */
import type { Meta } from "../api.js";
import type { Route } from "../http/router.js";
import type { Services } from "../services.js";
import { version } from "../version.js";

export function metaRoutes({ sp, settings, instance }: Services): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/api/meta",
      async run(): Promise<Meta> {
        const { write, token } = settings;
        return { version: version(), url: sp.url, write, instance, now: Date.now(), token: token !== undefined };
      },
    },
  ];
}
