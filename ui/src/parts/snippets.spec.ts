import { expect, test } from "vitest";
import { quoted } from "./snippets";

test("a word for the shell stays one word", () => {
  expect(quoted("Approved")).toBe("Approved");
  expect(quoted("a b; rm -rf '$HOME'")).toBe(`'a b; rm -rf '\\''$HOME'\\'''`);
});
