/** What providers tell of their limits: how it is read, and that it moves the operator's. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { useSidecar } from "./fixture.js";
import { MODELS, type ModelAt } from "./fixture_models.js";
import {
  chatEvents,
  type Events,
  messageEvents,
  Provider,
  responseEvents,
} from "./fixture_provider.js";
import { outcomeRequest } from "./model_request.js";
import { modelHandler } from "./models.js";
import { limitsIn } from "./provider_limits.js";

const report = (headers: { [name: string]: string }) => limitsIn(new Headers(headers));

test("the headers of OpenAI and of Anthropic are read", () => {
  expect(
    report({
      "x-ratelimit-remaining-requests": "59",
      "x-ratelimit-reset-requests": "1s",
      "x-ratelimit-remaining-tokens": "149984",
      "x-ratelimit-reset-tokens": "6m0.5s",
    }),
  ).toEqual({ requests: 59, requestsResetMs: 1_000, tokens: 149_984, tokensResetMs: 360_500 });
  const at = new Date(Date.now() + 30_000).toISOString();
  const limits = report({
    "anthropic-ratelimit-tokens-remaining": "1000",
    "anthropic-ratelimit-tokens-reset": at,
  });
  expect(limits).toMatchObject({ tokens: 1000 });
  expect(limits?.requests).toBeUndefined();
  expect(limits?.tokensResetMs).toBeGreaterThan(25_000);
  expect(limits?.tokensResetMs).toBeLessThanOrEqual(30_000);
});

test.each([
  ["5", "2", 2_000],
  ["5", "2.5", 2_500],
  ["5", "-3", 0],
  ["5", "100000h", 86_400_000],
  ["5", "1h2m3s4ms", 3_723_004],
  ["5", "1999-01-01T00:00:00+01:00", 0],
])("%s left, all of it in %s", (left, reset, ms) => {
  const headers = { "x-ratelimit-remaining-tokens": left, "x-ratelimit-reset-tokens": reset };
  expect(report(headers)).toEqual({ tokens: 5, tokensResetMs: ms });
});

test.each([
  ["many", "1s"],
  ["-1", "1s"],
  ["1.5", "1s"],
  ["5", "soon"],
  ["5", ""],
  ["5", "2026-01-01T00:00:00"],
  ["5", "1s 2m"],
])("%s left, all of it in %s, tells nothing", (left, reset) => {
  const headers = { "x-ratelimit-remaining-tokens": left, "x-ratelimit-reset-tokens": reset };
  expect(report(headers)).toBeUndefined();
});

test("what is no header tells nothing", () => {
  expect(limitsIn(undefined)).toBeUndefined();
  expect(limitsIn({ "x-ratelimit-remaining-tokens": "5" })).toBeUndefined();
});

test("what is not told stays unset on the wire", () => {
  const turn = { runId: "r", turnSeq: 1, attempt: 1, token: "t" };
  const outcome = { failure: { error: { code: "X" } } };
  const limits = { tokens: 0, tokensResetMs: 2_000 };
  const request = outcomeRequest("", turn, { step: 1, attempt: 1, outcome, limits });
  expect(request.providerLimits).toEqual({
    tokens: 0n,
    tokensReset: { seconds: 2n, nanos: 0 },
  });
  const silent = outcomeRequest("", turn, { step: 1, attempt: 1, outcome });
  expect(silent.providerLimits).toBeUndefined();
});

const operator = mkdtempSync(join(tmpdir(), "pawl-operator-"));
afterAll(() => rmSync(operator, { recursive: true }));
writeFileSync(
  join(operator, "limits"),
  "limits: [{id: theirs, key: model, per_minute: 60000, provider: true}]",
);
const shared = useSidecar({ flags: [`--limits=${join(operator, "limits")}`] });

const VENDORS: [vendor: string, make: ModelAt, answer: Events][] = [
  ["chat", MODELS["chat completions"], chatEvents("Hello.")],
  ["responses", MODELS.responses, responseEvents("Hello.")],
  ["messages", MODELS.messages, messageEvents("Hello.")],
];

/** Returns headers that say that no requests are left for an hour. */
const usedUp = (vendor: string): { [name: string]: string } =>
  vendor === "messages"
    ? {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": new Date(Date.now() + 3_600_000).toISOString(),
      }
    : { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h" };

/** A pack of one state in which a model answers. */
const pack = (id: string) =>
  JSON.stringify({
    id,
    name: id,
    version: "1.0.0",
    template_engine: { version: "v1", syntax: "{{variable}}" },
    prompts: { p: { id: "p", name: "p", version: "1.0.0", system_template: "You help." } },
    workflow: { version: 1, entry: "s", states: { s: { prompt_task: "p", terminal: true } } },
  });

test.each(VENDORS)(
  "by %s they keep the next call waiting, also those of an error",
  async (vendor, make, events) => {
    for (const [how, answer] of [
      ["ok", events],
      ["error", 400],
    ] as const) {
      const model = `${vendor}-${how}`;
      await shared.client.registerPack(pack(model));
      await using provider = await Provider.start(answer);
      provider.headers = usedUp(vendor);
      const handler = modelHandler(make(provider.url, model));
      const first = await shared.client.run(model, handler, { input: "Hi." });
      expect(first.output === undefined || provider.got.length === 1).toBe(true);

      const second = await shared.client.open(model, { input: "Hi." });
      const over = new AbortController();
      const driven = second.drive(handler, { signal: over.signal }).catch(() => undefined);
      await expect
        .poll(async () => (await second.info()).limitWaits, { timeout: 20_000 })
        .toMatchObject([{ model, limits: [{ limit: "theirs", key: model }] }]);
      expect(provider.got).toHaveLength(1);
      over.abort();
      await driven;
    }
  },
);
