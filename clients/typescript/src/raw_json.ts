/**
 * Sends JSON text unchanged. Providers of the SDK take arguments as values and write them with
 * other digits and spaces, so they receive a mark, which is replaced by the text when the request
 * is sent.
 */

/** No text of a program or a model contains it. */
const MARK = `pawl-${globalThis.crypto.randomUUID()}`;
const MARKED = new RegExp(`\\{(\\\\*)"${MARK}\\1":\\1"([\\w-]*)\\1"\\}`, "g");

/** Returns a value that stands for JSON text until the request is sent. */
export function markRawJson(text: string): unknown {
  return { [MARK]: Buffer.from(text).toString("base64url") };
}

/** Returns a body with the texts in place of their marks, also in JSON within JSON. */
export function restoreRawJson(body: string): string {
  return body.includes(MARK)
    ? body.replace(MARKED, (_, quote: string, text: string) => {
        return within(Buffer.from(text, "base64url").toString(), quote.length);
      })
    : body;
}

/**
 * Returns the text as part of a string, of a string in a string, ..., by the escaping of its
 * quotes.
 */
function within(text: string, escapes: number): string {
  return escapes === 0 ? text : within(JSON.stringify(text).slice(1, -1), (escapes - 1) / 2);
}
