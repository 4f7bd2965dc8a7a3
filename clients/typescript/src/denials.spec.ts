/** A tool that the policy of tools refuses is in the log of the client, once. */

import { expect, test } from "vitest";
import { Denials } from "./denials.js";
import { serving, useSidecar } from "./fixture.js";
import { PawlError, type Reply, type Turn } from "./index.js";

const shared = useSidecar();
const VARIABLES = { variables: { n: 1 } };

async function handler(turn: Turn): Promise<Reply> {
  if (turn.terminal) {
    return {};
  }
  for (const tool of ["forbidden", "forbidden", "nowhere"]) {
    const error = await turn.step(tool).catch((thrown: unknown) => thrown);
    expect(PawlError.is(error) && error.kind).toBe("step_refused");
  }
  return { event: "Done" };
}

function hearing() {
  const message: string[] = [];
  const log = { info: () => undefined, warn: (text: string) => message.push(text) };
  return { said: message, client: shared.sidecar.client({ log }) };
}

const LINE =
  'pack steps: tool forbidden is denied: TOOL_NOT_ALLOWED: the operator\'s allowlist does not admit tool "forbidden" (serve --allow-tool forbidden)';

test("by a driver", async () => {
  const { said: text, client } = hearing();
  for (let round = 0; round < 2; round += 1) {
    await client.run("steps", handler, VARIABLES);
  }
  client.close();
  expect(text).toEqual([LINE]);
});

test("by a worker", async () => {
  const { said: text, client } = hearing();
  {
    await using _ = serving(client.worker({ packs: ["steps"] }).prompt("calc", handler));
    for (let round = 0; round < 2; round += 1) {
      await (await client.start("steps", VARIABLES)).wait();
    }
  }
  client.close();
  expect(text).toEqual([LINE]);
});

test("with the flag where the sidecar does not name it, and of the policy alone", () => {
  const entry: string[] = [];
  const denials = new Denials({ info: () => undefined, warn: (text) => entry.push(text) });
  const refuse = (code: string, message: string) =>
    denials.take("shop", [{ tool: code }], [{ denial: { code, message } } as never]);
  refuse("TOOL_NOT_ALLOWED", "the run above does not admit it");
  refuse("TOOL_BLOCKED", "the blocklist names it");
  refuse("PAYLOAD_INVALID", "a number is wanted");
  expect(entry).toEqual([
    "pack shop: tool TOOL_NOT_ALLOWED is denied: TOOL_NOT_ALLOWED: the run above does not admit it (serve the sidecar of that run with --allow-tool TOOL_NOT_ALLOWED)",
    "pack shop: tool TOOL_BLOCKED is denied: TOOL_BLOCKED: the blocklist names it",
  ]);
});
