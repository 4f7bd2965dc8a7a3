/** What does not fit a schema is named: its place, and the member of a union that is meant. */

import { expect, test } from "vitest";
import { z } from "zod";
import { fitting, type StandardSchema } from "./standard_schema.js";

const circle = z.object({ kind: z.literal("circle"), r: z.number() });
const square = z.object({
  kind: z.literal("square"),
  side: z.number(),
  in: z.object({ n: z.number() }),
});
const tagged = z.object({ shapes: z.array(z.discriminatedUnion("kind", [circle, square])) });
const wrapped = z.object({ shape: z.discriminatedUnion("kind", [circle, square]).optional() });
const untagged = z.object({ shapes: z.array(z.union([circle, square])) });

test.each<[string, StandardSchema, unknown, string, string]>([
  ["a member", tagged, { shapes: [{ kind: "circle", r: "x" }] }, "$.shapes[0].r", "of circle: "],
  [
    "one further in",
    tagged,
    { shapes: [{ kind: "square", side: 1, in: {} }] },
    "$.shapes[0].in.n",
    "of square: ",
  ],
  ["one in a wrapper", wrapped, { shape: { kind: "circle" } }, "$.shape.r", "of circle: "],
  [
    "no tag of it",
    tagged,
    { shapes: [{ kind: "oval" }] },
    "$.shapes[0].kind",
    "Invalid discriminator",
  ],
  [
    "one without a discriminator",
    untagged,
    { shapes: [{ kind: "circle", r: "x" }] },
    "$.shapes[0].r",
    "Invalid input: expected number",
  ],
  ["none of those", untagged, { shapes: [{ kind: "oval" }] }, "$.shapes[0]", "Invalid input"],
])("%s", async (_, schema, value, field, text) => {
  const message = `arguments: at ${field}: ${text}`;
  await expect(fitting(schema, value, "INVALID_ARGUMENTS", "arguments")).rejects.toMatchObject({
    message: expect.stringContaining(message),
    field,
  });
});
