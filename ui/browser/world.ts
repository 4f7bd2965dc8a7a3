/** Runs as people have them, driven through the gateway. */

import type { Sidecar } from "./sidecar.ts";

interface Turn {
  runId: string;
  turnSeq: string;
  attempt: number;
  token: string;
}

interface Answer {
  run?: { runId: string };
  turn?: Turn;
  state?: string;
}

export type Write = { name: string; value: { text: string } | { json: string } };

export const text = (name: string, value: string): Write => ({ name, value: { text: value } });
export const json = (name: string, value: unknown): Write => ({
  name,
  value: { json: JSON.stringify(value) },
});

/** Drives one run as its caller. */
export class Driver {
  private constructor(
    readonly sidecar: Sidecar,
    readonly id: string,
    private turn: Turn | undefined,
    private readonly token: string | undefined,
  ) {}

  static async start(
    sidecar: Sidecar,
    request: Record<string, unknown>,
    token?: string,
  ): Promise<Driver> {
    const body = { execution: "EXECUTION_CALLER", ...request };
    const got = await sidecar.call<Answer>("POST", "/v1/runs", body, token);
    return new Driver(sidecar, got.run?.runId ?? "", got.turn, token);
  }

  /** The same run at another process. */
  at(sidecar: Sidecar): Driver {
    return new Driver(sidecar, this.id, undefined, this.token);
  }

  /** Asks for a tool call, and leaves it to whoever decides or answers. */
  async ask(tool: string, payload: unknown): Promise<void> {
    const { turnSeq, attempt, token } = this.open();
    const requests = [{ tool, payloadJson: JSON.stringify(payload) }];
    await this.post(`/turns/${turnSeq}/steps`, { attempt, turnToken: token, requests });
  }

  /** Answers a tool call that was asked for before. */
  async answer(step: number, tool: string, result: unknown): Promise<void> {
    const turnToken = this.open().token;
    const resultJson = JSON.stringify(result);
    await this.post(`/steps/${step}:resolve`, { tool, attempt: 1, turnToken, resultJson });
  }

  /** Makes a tool call and answers it, with what it consumed if that is told. */
  async tool(tool: string, payload: unknown, result: unknown, usage?: object): Promise<void> {
    const { turnSeq, attempt, token } = this.open();
    const turnToken = token;
    const prompt = await this.post<{ outcomes: { step?: { step: number; attempt: number } }[] }>(
      `/turns/${turnSeq}/steps`,
      {
        attempt,
        turnToken,
        requests: [{ tool, payloadJson: JSON.stringify(payload) }],
      },
    );
    const step = prompt.outcomes[0]?.step;
    if (step === undefined) {
      return;
    }
    const answer =
      result instanceof Error
        ? { error: { code: "TOOL_FAILED", message: result.message } }
        : { resultJson: JSON.stringify(result) };
    const made = { tool, attempt: step.attempt, turnToken };
    await this.post(`/steps/${step.step}:resolve`, { ...made, ...answer, usage });
  }

  /** Asks for a call of a model; the number of its step and the attempt to make. */
  async askModel(round: number, request: object, bound?: object): Promise<[number, number]> {
    const { turnSeq, attempt, token } = this.open();
    const got = await this.post<{ step: { step: number; attempt: number } }>(
      `/turns/${turnSeq}/model`,
      { attempt, turnToken: token, round, request, ...(bound ? { bound } : {}) },
    );
    return [got.step.step, got.step.attempt];
  }

  /** Tells what came of an attempt: an answer or a failure, and what it consumed. */
  async answerModel(step: number, attempt: number, outcome: object, usage: object): Promise<void> {
    const turnToken = this.open().token;
    await this.post(`/steps/${step}:answer`, { attempt, turnToken, ...outcome, usage });
  }

  /** Makes a tool call of a model's answer, and answers it. */
  async calledTool(
    call: { modelStep: number; index: number },
    tool: string,
    payload: unknown,
    result: unknown,
  ): Promise<void> {
    const { turnSeq, attempt, token } = this.open();
    const requested = await this.post<{ outcomes: { step: { step: number; attempt: number } }[] }>(
      `/turns/${turnSeq}/steps`,
      {
        attempt,
        turnToken: token,
        requests: [{ tool, payloadJson: JSON.stringify(payload), call }],
      },
    );
    const resultJson = JSON.stringify(result);
    const step = requested.outcomes[0]?.step;
    await this.post(`/steps/${step?.step}:resolve`, {
      tool,
      attempt: step?.attempt,
      turnToken: token,
      resultJson,
    });
  }

  /** Ends the turn with an event; an empty one ends it without. */
  async complete(
    event: string,
    output: string,
    artifacts: Write[] = [],
    tokens = 900,
  ): Promise<void> {
    const { turnSeq, attempt, token } = this.open();
    const got = await this.post<Answer>(`/turns/${turnSeq}:complete`, {
      attempt,
      turnToken: token,
      event,
      artifacts,
      output: [{ text: output }],
      usage: {
        inputTokens: tokens,
        outputTokens: Math.round(tokens / 4),
        costMicroUsd: tokens * 12,
      },
    });
    this.turn = got.turn;
  }

  async fail(code: string, message: string): Promise<void> {
    const { turnSeq, attempt, token } = this.open();
    await this.post(`/turns/${turnSeq}:fail`, {
      attempt,
      turnToken: token,
      retryable: true,
      error: { code, message },
    });
    const retry = await this.post<{ turn: Turn }>("/turn", {});
    this.turn = retry.turn;
  }

  /** Moves the run from outside and takes its next turn, if there is one to take. */
  async emit(event: string, artifacts: Write[] = []): Promise<void> {
    const got = await this.post<Answer>("/events", { event, artifacts });
    this.turn = got.turn?.token ? got.turn : undefined;
  }

  async fetch(): Promise<void> {
    this.turn = (await this.post<{ turn: Turn }>("/turn", {})).turn;
  }

  post<T = Record<string, unknown>>(path: string, body: unknown): Promise<T> {
    return this.sidecar.call<T>("POST", `/v1/runs/${this.id}${path}`, body, this.token);
  }

  private open(): Turn {
    if (!this.turn) {
      throw new Error("the run has no turn of ours");
    }
    return this.turn;
  }
}

const PLAN = "1. Parse the numerals. 2. Refuse what is none. 3. Write them back.";

/** Writes code, breaks a test, repairs it, asks for a review. Ends COMPLETED unless told to stop. */
export async function codegen(
  sidecar: Sidecar,
  labels: Record<string, string>,
  until = "done",
): Promise<Driver> {
  const run = await Driver.start(sidecar, {
    pack: "codegen-agent",
    variablesJson: JSON.stringify({
      requirements: "Convert Roman numerals, both ways, with tests.",
    }),
    labels,
    input: [{ text: "Convert Roman numerals, both ways, with tests." }],
  });
  await run.complete("PlanReady", PLAN, [], 640);
  await run.tool(
    "write_file",
    {
      path: "roman.go",
      content: "package roman\n\nfunc Parse(s string) int {\n\treturn len(s)\n}",
    },
    { bytes: 58 },
  );
  await run.complete("CodeReady", "A first version.", [
    text("commit_sha", "3f0a91c"),
    text(
      "change_summary",
      "First version.\n\n- `Parse` counts the letters\n- no check of the order yet",
    ),
  ]);
  if (until === "test") {
    return run;
  }
  await run.fail("MODEL_OVERLOADED", "the model answered 529");
  await run.tool("run_tests", { test_path: "./..." }, { passed: 3, failed: 2 });
  await run.complete("TestsFailed", "Two tests fail.", [
    json("test_report", {
      passed: 3,
      failed: 2,
      failures: [
        { test: "TestParse/IV", got: 2, want: 4 },
        { test: "TestParse/MCMXCIV", got: 7, want: 1994 },
      ],
    }),
  ]);
  await repaired(run);
  await run.tool("run_tests", { test_path: "./..." }, { passed: 5, failed: 0 });
  await run.complete("TestsPassed", "All tests pass.", [
    json("test_report", { passed: 5, failed: 0, failures: [] }),
  ]);
  if (until === "review") {
    return run;
  }
  await run.complete("Approved", "Readable, and small.");
  await run.complete("", "Roman numerals are converted both ways.");
  return run;
}

/** What a model is told of the tools that it may call; white space is part of it. */
export const TOOLS = '[ {"name":"read_file"},{"name":"run_tests"} ]';

/**
 * A run whose coder asks a model: the first attempt fails, the second calls two tools, of
 * which one is made; then its executor asks the first round otherwise, and the second.
 */
export async function spoken(sidecar: Sidecar): Promise<Driver> {
  const run = await Driver.start(sidecar, {
    pack: "codegen-agent",
    variablesJson: JSON.stringify({ requirements: "Roman numerals." }),
    labels: { team: "models" },
    input: [{ text: "Roman numerals, please." }],
  });
  await run.complete("PlanReady", PLAN);
  const first = {
    model: "gpt",
    system: "Write code.  Two spaces stay two.",
    toolsJson: TOOLS,
    parametersJson: '{"temperature":0.2}',
    messages: [{ message: { role: "user", parts: [{ text: "Convert <b>Roman</b> numerals." }] } }],
  };
  const bound = { inputTokens: "5000", outputTokens: "800" };
  const [step] = await run.askModel(1, first, bound);
  const error = { code: "MODEL_RATE_LIMITED", message: "slow down" };
  await run.answerModel(step, 1, { failure: { error } }, { inputTokens: "900" });
  await run.answerModel(step, 2, { answer: CALLS }, USED);
  await run.calledTool(
    { modelStep: step, index: 0 },
    "read_file",
    { path: "roman.go" },
    { content: "package roman" },
  );
  await run.askModel(1, { ...first, system: "Write code, in Go." });
  const [retry] = await run.askModel(2, {
    model: "gpt",
    previousStep: step,
    messages: [{ result: { step: step + 1, callId: "c0" } }],
  });
  const done = { parts: [{ text: "It is written." }], finishReason: "stop", model: "gpt-5" };
  await run.answerModel(retry, 1, { answer: done }, { inputTokens: "2400", outputTokens: "60" });
  return run;
}

const CALLS = {
  parts: [{ text: "I look first." }],
  calls: [
    { id: "c0", name: "read_file", arguments: '{"path":"roman.go"}' },
    { id: "c1", name: "run_tests", arguments: '{"test_path":"./..."' },
  ],
  finishReason: "tool_calls",
  model: "gpt-5",
  responseId: "resp_4711",
};

const USED = {
  inputTokens: "1200",
  cachedTokens: "800",
  outputTokens: "300",
  reasoningTokens: "120",
  costMicroUsd: "4200",
};

/** The second version of the code. */
async function repaired(run: Driver): Promise<void> {
  await run.tool("read_file", { path: "roman.go" }, { content: "package roman …" });
  await run.tool(
    "write_file",
    {
      path: "roman.go",
      content: "package roman\n\nvar values = map[byte]int{'I': 1, 'V': 5, 'X': 10}",
    },
    new Error("disk quota exceeded"),
  );
  await run.tool(
    "write_file",
    {
      path: "roman.go",
      content: "package roman\n\nvar values = map[byte]int{'I': 1, 'V': 5, 'X': 10}",
    },
    { bytes: 312 },
  );
  await run.complete("CodeReady", "Subtractive pairs are read.", [
    text("commit_sha", "b71e44d"),
    text(
      "change_summary",
      "Second version.\n\n- `Parse` reads subtractive pairs\n- no check of the order yet\n- table of values",
    ),
  ]);
}

/** Looks into an alert and proposes a repair; it waits for a person. */
export async function incident(
  sidecar: Sidecar,
  labels: Record<string, string>,
  token?: string,
): Promise<Driver> {
  const run = await Driver.start(
    sidecar,
    {
      pack: "ops-remediation",
      variablesJson: JSON.stringify({ alert_description: "p99 of checkout over 2 s for 10 min" }),
      labels,
    },
    token,
  );
  await run.tool(
    "query_metrics",
    { query: "histogram_quantile(0.99, checkout)", range: "1h" },
    { p99: 2.31, since: "14:02" },
  );
  await run.complete("NeedMoreData", "The database is slow, why is not known.", [
    json("diagnosis_log", { tool: "query_metrics", found: "p99 2.31 s since 14:02" }),
  ]);
  await run.tool(
    "read_logs",
    { service: "checkout-db", since: "14:00" },
    { lines: 212, slow_queries: 57 },
  );
  await run.complete("DiagnosisReady", "A missing index.", [
    text("diagnosis", "checkout-db: sequential scan of orders since the 14:00 release"),
    json("diagnosis_log", { tool: "read_logs", found: "57 slow queries on orders.customer_id" }),
  ]);
  await run.complete("FixProposed", "Create the index concurrently.", [
    json("proposed_fix", {
      action: "apply_config",
      target: "checkout-db",
      index: "orders (customer_id)",
      rollback: ["drop index concurrently"],
    }),
  ]);
  return run;
}

/** Everything that the runs page is about. */
export async function populate(sidecar: Sidecar, rounds = 1): Promise<void> {
  for (let i = 0; i < rounds; i++) {
    await codegen(sidecar, { team: "payments", ticket: `PAY-${310 + i}` });
    await incident(sidecar, { team: "sre", severity: "2" });
    await codegen(sidecar, { team: "search", ticket: `SRCH-${77 + i}` }, "review");
    const rejected = await incident(sidecar, { team: "sre", severity: "1" });
    await rejected.emit("Rejected");
    const stopped = await codegen(sidecar, { team: "payments" }, "test");
    await stopped.post(":cancel", { note: "superseded" });
    await exhausted(sidecar);
    await escalated(sidecar);
    const paused = await codegen(sidecar, { team: "search" }, "test");
    await paused.post(":pause", { note: "while the tests are moved" });
    await failed(sidecar);
  }
}

/** Its executor fails, and no attempt would help. */
export async function failed(sidecar: Sidecar): Promise<Driver> {
  const run = await codegen(sidecar, { team: "payments" }, "test");
  const { turn } = await run.post<{ turn: Turn }>("/turn", {});
  await run.post(`/turns/${turn.turnSeq}:fail`, {
    attempt: turn.attempt,
    turnToken: turn.token,
    error: { code: "NO_WORKSPACE", message: "the repository is gone" },
  });
  return run;
}

/** Never stops repairing: its visits are used up. */
async function exhausted(sidecar: Sidecar): Promise<void> {
  const run = await Driver.start(sidecar, { pack: "self-correcting", labels: { team: "data" } });
  for (let i = 0; i < 40; i++) {
    const { run: head } = await sidecar.call<{ run: { status: string; allowedEvents?: string[] } }>(
      "GET",
      `/v1/runs/${run.id}`,
    );
    if (!head.allowedEvents?.includes("Error")) {
      return;
    }
    await run.complete("Error", "It failed again.", [
      text("error_summary", `attempt ${i + 1}: connection reset`),
    ]);
  }
}

/** Its executor fails for good until the attempts are used up. */
export async function escalated(sidecar: Sidecar): Promise<Driver> {
  const run = await Driver.start(sidecar, { pack: "self-correcting", labels: { team: "data" } });
  for (let attempt = 1; attempt <= 3; attempt++) {
    const { turn } = await run.post<{ turn: Turn }>("/turn", {});
    await run.post(`/turns/${turn.turnSeq}:fail`, {
      attempt: turn.attempt,
      turnToken: turn.token,
      retryable: true,
      error: { code: "CONTEXT_TOO_LONG", message: "the model takes 200 000 tokens" },
    });
  }
  return run;
}
