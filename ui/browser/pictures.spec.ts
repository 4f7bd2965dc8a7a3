/**
 * Every page in light and dark and on a phone: axe finds nothing in light and dark, no page is wider than its window, and a picture is
 * taken. Only its rules of contrast depend on the theme, and none on the width, so the phone needs no run of its own. PAWL_PICTURES=DIR keeps the pictures; docs/images has some of them.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { AxeResults } from "axe-core";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { BUDGETS, operatorFile, spending } from "./money";
import { REFUNDS } from "./refunds";
import { example, Sidecar } from "./sidecar";
import { codegen, Driver, incident, populate, spoken } from "./world";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const KEEP = process.env.PAWL_PICTURES;

let browser: Browser;
let sidecar: Sidecar;
const runs = { done: "", waiting: "", queued: "", spoken: "", spending: "", held: "", chat: "" };

beforeAll(async () => {
  sidecar = await Sidecar.start({
    flags: operatorFile("budgets", BUDGETS),
    packs: [
      "rfc0009-1-codegen-agent.yaml",
      "rfc0009-3-self-correcting.json",
      "rfc0009-4-ops-remediation.yaml",
      "rfc0011-1-security-review.yaml",
    ].map(example),
  });
  await populate(sidecar, 2);
  runs.done = (await codegen(sidecar, { team: "payments", ticket: "PAY-318" })).id;
  runs.waiting = (await incident(sidecar, { team: "sre", severity: "2" })).id;
  runs.spoken = (await spoken(sidecar)).id;
  const started = await sidecar.call<{ run: { runId: string } }>("POST", "/v1/runs", {
    pack: "self-correcting",
    execution: "EXECUTION_WORKERS",
  });
  runs.queued = started.run.runId;
  runs.spending = (await spending(sidecar, { tenant: "acme" })).id;
  await spending(sidecar, { tenant: "globex" });
  await sidecar.register(REFUNDS);
  const refund = await Driver.start(sidecar, { pack: "refunds", labels: { customer: "c-208" } });
  await refund.ask("refund", { order: "o-1738", amount: 249.9, why: "It arrived broken." });
  runs.held = refund.id;
  runs.chat = await asked(sidecar);
  browser = await launch();
});

/** A conversation with a call that a person has to approve. */
async function asked(at: Sidecar): Promise<string> {
  const run = await Driver.start(at, {
    pack: "refunds",
    input: [{ text: "My order o-1738 arrived broken. I would like the money back." }],
  });
  const [step] = await run.askModel(1, { model: "gpt", messages: [] }, { outputTokens: "50" });
  const text = "I am sorry about that. I ask for a refund of 249.90 now.";
  const answer = { parts: [{ text }], finishReason: "tool_calls" };
  await run.answerModel(step, 1, { answer }, { inputTokens: "412", outputTokens: "38" });
  await run.ask("refund", { order: "o-1738", amount: 249.9, why: "It arrived broken." });
  return run.id;
}

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

/** The dark theme changes only the colours. */
async function violations(page: Page, form: string): Promise<string[]> {
  await page.evaluate(AXE);
  const rules = form === "dark" ? '{ runOnly: ["color-contrast", "link-in-text-block"] }' : "";
  const results = (await page.evaluate(`axe.run(${rules})`)) as AxeResults;
  return results.violations.map(
    (v) =>
      `${v.id}: ${v.help}\n${v.nodes.map((n) => `  ${n.html}\n  ${n.failureSummary}`).join("\n")}`,
  );
}

interface View {
  name: string;
  path: () => string;
  /** Brings the page to what is to be seen. */
  ready: (page: Page) => Promise<unknown>;
  /** What the picture shows; default: the page. */
  part?: (page: Page) => Locator;
}

const settled = (page: Page) => page.locator(".loading").waitFor({ state: "detached" });

const VIEWS: View[] = [
  {
    name: "runs",
    path: () => "/ui/",
    ready: async (page) => {
      await page.locator(".link-state.live").waitFor();
      await codegen(sidecar, { team: "search", ticket: "SRCH-91" }, "review");
      await page.locator(".sparkline figcaption", { hasText: /^[1-9]/ }).waitFor();
    },
  },
  {
    name: "run",
    path: () => `/ui/runs/${runs.waiting}`,
    ready: async (page) => {
      await page.getByRole("button", { name: "Approved" }).waitFor();
      await page.locator(".link-state.live").waitFor();
      await page.getByRole("button", { name: /^proposed_fix/ }).click();
    },
  },
  {
    name: "run-record",
    path: () => `/ui/runs/${runs.done}?seq=21`,
    ready: async (page) => {
      await page.getByRole("button", { name: /^change_summary/ }).click();
      await page.getByRole("button", { name: "Changed by #21" }).click();
      await page.locator(".diff").waitFor();
    },
  },
  {
    name: "run-turn",
    path: () => `/ui/runs/${runs.done}?seq=15`,
    ready: async (page) => {
      await page.getByRole("tab", { name: "Turn" }).click();
      await page.getByRole("heading", { name: "Tool calls" }).waitFor();
    },
  },
  {
    name: "run-model",
    path: () => `/ui/runs/${runs.spoken}?seq=7`,
    ready: async (page) => {
      await page.getByText("no step for this call").waitFor();
      await page.getByText("Tools", { exact: true }).click();
    },
  },
  {
    name: "run-rounds",
    path: () => `/ui/runs/${runs.spoken}?seq=12`,
    ready: async (page) => {
      await page.getByRole("tab", { name: "Turn" }).click();
      await page.getByRole("heading", { name: "Model calls" }).waitFor();
    },
  },
  {
    name: "run-emit",
    path: () => `/ui/runs/${runs.waiting}`,
    ready: async (page) => {
      await page.getByRole("button", { name: "Approved" }).click();
      await page.getByRole("dialog").getByText("Create the index concurrently.").waitFor();
    },
  },
  {
    name: "run-times",
    path: () => `/ui/runs/${runs.done}`,
    ready: async (page) => {
      await page.getByRole("tab", { name: "Times" }).click();
      await page.locator(".stretches").waitFor();
    },
  },
  {
    name: "run-money",
    path: () => `/ui/runs/${runs.spending}`,
    ready: async (page) => {
      await page.locator(".link-state.live").waitFor();
      await page.getByRole("meter", { name: "Cost" }).waitFor();
      await page.getByRole("button", { name: /^at #/ }).waitFor();
    },
    part: (page) => page.getByRole("region", { name: "Guards and budgets" }),
  },
  {
    name: "budgets",
    path: () => "/ui/budgets",
    ready: (page) => page.getByRole("region", { name: "tenant=acme/month" }).waitFor(),
  },
  {
    name: "approvals",
    path: () => "/ui/approvals",
    ready: (page) => page.getByRole("region", { name: /^refund #1/ }).waitFor(),
    part: (page) => page.getByRole("region", { name: /^refund #1/ }),
  },
  {
    name: "decide",
    path: () => `/ui/runs/${runs.held}`,
    ready: async (page) => {
      await page.getByRole("button", { name: "Decide refund #1" }).click();
      await page.getByRole("dialog").getByText("o-1738").first().waitFor();
    },
  },
  {
    name: "say",
    path: () => `/ui/runs/${runs.spending}`,
    ready: async (page) => {
      await page.getByRole("button", { name: "Add a message" }).click();
      const text = page.getByRole("dialog").getByLabel("Message for the model");
      await text.fill("The customer is in Austria: leave out what holds in Germany alone.");
    },
  },
  {
    name: "chat",
    path: () => `/ui/chat/${runs.chat}`,
    ready: (page) => page.getByRole("button", { name: "Approve" }).waitFor(),
    part: (page) => page.locator("main"),
  },
  {
    name: "chat-new",
    path: () => "/ui/chat?pack=ops-remediation",
    ready: (page) => page.getByLabel(/^alert_description/).waitFor(),
  },
  {
    name: "chat-end",
    path: () => `/ui/chat/${runs.done}`,
    ready: (page) => page.getByText(/^Artifacts \(/).waitFor(),
  },
  {
    name: "start",
    path: () => "/ui/start?pack=ops-remediation",
    ready: (page) => page.getByLabel(/^alert_description/).waitFor(),
  },
  {
    name: "workers",
    path: () => "/ui/workers",
    ready: async (page) => {
      await page.route("**/v1/workers", (route) => route.fulfill({ json: WORKERS }));
      await page.reload();
      await page.getByText("Held turns and steps").first().click();
      await page.getByRole("link", { name: runs.queued }).first().waitFor();
    },
  },
  {
    name: "deliveries",
    path: () => "/ui/deliveries",
    ready: async (page) => {
      await page.route("**/v1/webhooks", (route) => route.fulfill({ json: HOOKS }));
      await page.route("**/v1/deliveries:dead?*", (route) => route.fulfill({ json: DEAD_LETTERS }));
      await page.reload();
      await page.getByText("Dead letters (2 so far)").click();
      await page.getByText("HTTP 503").waitFor();
    },
  },
  {
    name: "packs",
    path: () => "/ui/packs",
    ready: (page) => page.locator(".pack-card").first().waitFor(),
  },
  {
    name: "pack",
    path: () => "/ui/packs/ops-remediation",
    ready: (page) => page.locator(".graph svg").waitFor(),
  },
  {
    name: "check",
    path: () => "/ui/check",
    ready: async (page) => {
      const broken = readFileSync(example("rfc0009-1-codegen-agent.yaml"), "utf8")
        .replace("CodeReady: test", "CodeReady: tset")
        .replace("max_visits: 10", "max_visits: 0");
      await page.getByLabel("Document").fill(broken);
      await page.getByRole("button", { name: "Check" }).click();
      await page.getByText("The pack would be refused").waitFor();
    },
  },
];

/** A worker speaks gRPC, and a letter is dead after 17 minutes: both are told of here. */
const HOUR_AGO = new Date(Date.now() - 3_600_000).toISOString();
const JUST_NOW = new Date().toISOString();
const WORKERS = {
  totalWorkers: 2,
  workers: [
    {
      workerId: "model-eu-1",
      principal: "worker",
      client: "pawl-python/1.0.0",
      prompts: ["*"],
      turnCapacity: 8,
      heldTurns: 1,
      turns: [{ runId: "01KAMQ0000000000000000000A", turnSeq: "4", attempt: 1, since: HOUR_AGO }],
      connectedAt: HOUR_AGO,
      seenAt: JUST_NOW,
      turnCounts: { taken: "212", failed: "1" },
    },
    {
      workerId: "tools-ci-3",
      principal: "worker",
      client: "pawl-client/1.0.0",
      packs: ["codegen-agent"],
      tools: ["read_file", "run_tests", "write_file"],
      stepCapacity: 4,
      connectedAt: HOUR_AGO,
      seenAt: JUST_NOW,
      draining: true,
      stepCounts: { taken: "57", failed: "23" },
      lastFailure: {
        at: JUST_NOW,
        runId: "01KAMQ0000000000000000000B",
        tool: "run_tests",
        attempt: 3,
        error: { code: "TOOL_FAILED", message: "no space left on device" },
      },
      failingMoreThanPeers: true,
    },
  ],
  ready: [
    { pack: { id: "codegen-agent", version: "1.0.0" }, prompt: "coder", count: 12, workers: 1 },
    { pack: { id: "ops-remediation", version: "1.0.0" }, tool: "apply_config", count: 3 },
  ],
};
const HOOKS = {
  webhooks: [
    {
      webhookId: "audit",
      owner: "operator",
      url: "https://audit.example/pawl",
      createdAt: HOUR_AGO,
      deadLetters: "2",
      attempts: 4,
      lastError: "HTTP 503",
      nextAt: JUST_NOW,
    },
  ],
};
const DEAD_LETTERS = {
  deadLetters: [1, 2].map((n) => ({
    n: String(n),
    at: HOUR_AGO,
    error: "HTTP 500",
    size: "812",
    body: Buffer.from('{"type":"dev.pawl.record.ended"}').toString("base64"),
  })),
};

const FORMS = [
  { form: "light", options: { colorScheme: "light" as const } },
  { form: "dark", options: { colorScheme: "dark" as const } },
  {
    form: "phone",
    options: { colorScheme: "light" as const, viewport: { width: 390, height: 844 } },
  },
];

describe.each(FORMS)("$form", ({ form, options }) => {
  test.each(VIEWS)("$name has no violation and fits", async ({ name, path, ready, part }) => {
    const shown = await open(browser, sidecar.url + path(), {
      reducedMotion: "reduce",
      ...options,
    });
    await ready(shown.page);
    await settled(shown.page);
    if (KEEP) {
      const path = join(KEEP, `ui-${name}-${form}.png`);
      const fullPage = !["runs", "run-emit", "decide", "say"].includes(name);
      await (part
        ? part(shown.page).screenshot({ path })
        : shown.page.screenshot({ path, fullPage }));
    }
    if (form !== "phone") {
      expect(await violations(shown.page, form)).toEqual([]);
    }
    // Nothing is wider than the window, on a phone either.
    const wide = await shown.page.evaluate("document.documentElement.scrollWidth - innerWidth");
    expect(wide).toBeLessThanOrEqual(0);
    expect(shown.faults).toEqual([]);
    await shown.close();
  });
});
