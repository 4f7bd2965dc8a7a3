/**
 * JSON text that is sent as it is. Providers of the SDK take arguments as values and write them
 * anew, in other digits and other spaces: they are given a mark, and what is sent has the text.
 */

/** No text of a program or of a model has it. */
const MARK = `pawl-${globalThis.crypto.randomUUID()}`;
const MARKED = new RegExp(`\\{(\\\\*)"${MARK}\\1":\\1"([\\w-]*)\\1"\\}`, "g");

/** What stands for JSON text until it is sent. */
export function markRawJson(text: string): unknown {
  return { [MARK]: Buffer.from(text).toString("base64url") };
}

/** A body with the texts in the place of their marks, also in JSON within JSON. */
export function restoreRawJson(body: string): string {
  return body.includes(MARK)
    ? body.replace(MARKED, (_, quote: string, text: string) => {
        return within(Buffer.from(text, "base64url").toString(), quote.length);
      })
    : body;
}

/** The text as part of a string, of a string in a string, ...: by how its quotes are escaped. */
function within(text: string, escapes: number): string {
  return escapes === 0 ? text : within(JSON.stringify(text).slice(1, -1), (escapes - 1) / 2);
}
