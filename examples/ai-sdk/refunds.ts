/**
 * An agent of the AI SDK that pays money back, killed by SIGKILL at four moments. Without arguments
 * it is the script that kills; with the address of a sidecar it is the agent.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stepCountIs, ToolLoopAgent, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { PawlClient, RecordKind, StepDecision } from "pawl-client";
import { agent, bounds, currentCall } from "pawl-client/ai-sdk";
import { Sidecar } from "pawl-client/testing";
import { z } from "zod";

const MOMENTS = [
  "the model is asked a second time",
  "before the refund",
  "after the refund, before its record",
  "the model is asked a third time",
];

const [address, ledger = "", moment = ""] = process.argv.slice(2);
await (address === undefined ? killEach() : refund(address));

/** The agent: three tools, one of which moves money. */
async function refund(sidecar: string): Promise<void> {
  const tools = {
    find_order: tool({
      description: "Finds an order.",
      inputSchema: z.object({ order: z.string() }),
      execute: async ({ order }) => ({ order, paid: 120 }),
    }),
    refund: tool({
      description: "Pays an order back.",
      inputSchema: z.object({ order: z.string(), amount: z.number() }),
      execute: async ({ order, amount }) => {
        await here("before the refund");
        bank({ order, amount, key: currentCall()?.idempotencyKey ?? "" });
        await here("after the refund, before its record");
        return { refunded: amount };
      },
    }),
    tell: tool({
      description: "Tells the customer.",
      inputSchema: z.object({ text: z.string() }),
      execute: async ({ text }) => text.length,
    }),
  };
  const client = new PawlClient({ address: sidecar });
  const limits = bounds({
    maxToolCalls: 5,
    approve: { refund: "payload.amount > 100.0" },
    repeat: ["refund"],
  });
  const options = { name: "refunds", requestId: "order-17", tools, bounds: limits };
  const { text } = await agent(client, options, (durable) => {
    const model = durable.model(playTheModel());
    const refunds = new ToolLoopAgent({ model, tools: durable.tools, stopWhen: stepCountIs(6) });
    return refunds.generate({ prompt: "Order 17 came broken." });
  });
  console.log(text);
  client.close();
}

/** The bank: it keeps one refund for each key, however often it is called. */
function bank(payment: { order: string; amount: number; key: string }): void {
  if (!lines().some(({ key }) => key === payment.key)) {
    appendFileSync(ledger, `${JSON.stringify(payment)}\n`);
  }
}

function lines(): { order: string; amount: number; key: string }[] {
  const text = existsSync(ledger) ? readFileSync(ledger, "utf8") : "";
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** The person: approves the refund as soon as it is held. */
async function approve(client: PawlClient): Promise<void> {
  for await (const _ of client.transitions(undefined, {
    kinds: [RecordKind.STEP_REQUESTED],
  })) {
    for await (const { runId, call } of client.listApprovals()) {
      if (call) {
        const run = client.attach(runId);
        await run.decideStep(call.step, call.approval?.digest ?? "", StepDecision.APPROVE);
        console.log("approved:", call.tool);
        return;
      }
    }
  }
}

/** A moment of the run; the script asked this process to die at one of them. */
async function here(what: string): Promise<void> {
  if (what === moment) {
    process.kill(process.pid, "SIGKILL");
    await new Promise(() => undefined);
  }
}

/** Plays a model that finds the order, pays it back and tells the customer. */
function playTheModel(): MockLanguageModelV3 {
  const answers = [
    { toolName: "find_order", input: { order: "17" } },
    { toolName: "refund", input: { order: "17", amount: 120 } },
    { toolName: "tell", input: { text: "120 are on their way." } },
  ];
  const usage = {
    inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 5, text: 5, reasoning: 0 },
  };
  return new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const nth = prompt.filter(({ role }) => role === "assistant").length;
      await here(
        ["", "the model is asked a second time", "the model is asked a third time"][nth] ?? "-",
      );
      const next = answers[nth];
      const given = { usage, warnings: [] };
      return next
        ? {
            ...given,
            content: [
              {
                type: "tool-call",
                toolCallId: `call-${nth}`,
                toolName: next.toolName,
                input: JSON.stringify(next.input),
              },
            ],
            finishReason: { unified: "tool-calls", raw: undefined },
          }
        : {
            ...given,
            content: [{ type: "text", text: "The customer has the money back." }],
            finishReason: { unified: "stop", raw: undefined },
          };
    },
  });
}

/** Kills the agent once at each moment, and starts it again until it has ended. */
async function killEach(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "refunds-"));
  const flags = ["--step-grace=100ms"];
  const sidecar = await Sidecar.start({ allowTools: ["find_order", "refund", "tell"], flags });
  const payments = join(directory, "ledger.jsonl");
  const client = sidecar.client();
  const approved = approve(client);
  try {
    for (const one of [...MOMENTS, ""]) {
      const args = [fileURLToPath(import.meta.url), sidecar.address, payments, one];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] });
      const [code, signal] = await once(child, "exit");
      console.log(signal ? `killed: ${one}` : `ended with ${code}`);
    }
    await approved;
    for await (const run of client.listRuns({ pack: "refunds" })) {
      console.log("one run, with", run.toolCalls, "tool calls and", run.tokens, "tokens");
    }
    const paid = readFileSync(payments, "utf8").trim();
    console.log("in the bank:", paid.replace(/"key":"[^"]*"/g, '"key":"RUN/STEP"'));
  } finally {
    client.close();
    await sidecar.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
