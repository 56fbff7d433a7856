/**
 * The files of the page. In the package, `scripts/bundle.mjs` replaces this module by one with the built page: as strings, because
 * bundlers of users include modules, but no files that are found by a URL. From the sources, there is only a notice.
 */

/** A file of the page. */
export interface PageFile {
  /** The media type. */
  readonly type: string;
  /** The content, compressed with Brotli, as Base64. */
  readonly brotli: string;
  /** A hash of the content. */
  readonly hash: string;
}

/**
 * By name. `index.html` is the page; `{{base}}` in it is replaced by the base path. The names of all other files contain their
 * hashes.
 */
export const PAGE_FILES: Readonly<Record<string, PageFile>> = {};
