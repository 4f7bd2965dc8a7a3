/**
 * What handlers do: for each prompt, agent or tool a list with one entry an execution,
 * of which the last is repeated.
 */

import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import {
  type ArtifactLike,
  type Artifacts,
  type Fault,
  failStep,
  failTurn,
  type Json,
  JsonText,
  type MessageLike,
  PawlError,
  type Reply,
  type StepCall,
  type ToolCall,
  type Turn,
} from "pawl-client";
import { canon, fault } from "./canon.js";
import { event, jsonOf } from "./lines.js";
import { makeRounds, type Round, type UsageArgs, usageOf } from "./models.js";

/** What a turn is completed with. */
export interface ReplyArgs {
  readonly event?: string;
  readonly artifacts?: Readonly<Record<string, Json>>;
  readonly output?: string;
  readonly messages?: readonly { readonly role: MessageLike["role"]; readonly text: string }[];
  readonly usage?: UsageArgs;
  /** An answered MODEL step. */
  readonly conversation_through_step?: number;
}

interface Call extends StepCall {
  readonly catch?: boolean;
  /** The payload letter by letter, where the spelling of its numbers counts. */
  readonly payload_json?: string;
}

interface TurnAct extends ReplyArgs {
  readonly rounds?: readonly Round[];
  readonly steps?: readonly Call[];
  readonly set?: Readonly<Record<string, Json>>;
  readonly partial?: string;
  readonly hold?: string;
  readonly raise?: string;
  readonly fail?: Fault & { readonly non_retryable?: boolean };
  /** Returned unchanged. It may be any value. */
  readonly return?: Json;
}

interface ToolAct {
  /** It goes on until the deadline of its call has passed, and reports that. */
  readonly late?: boolean;
  readonly hold?: string;
  readonly raise?: string;
  readonly error?: Fault & { readonly unknown?: boolean };
  readonly result?: Json;
  /** The result is whether the call that is asked about stands in the ledger, of this tool. */
  readonly seen?: string;
}

/** A script. */
export interface Script {
  readonly turns?: Readonly<Record<string, readonly TurnAct[]>>;
  readonly agents?: Readonly<Record<string, readonly TurnAct[]>>;
  readonly tools?: Readonly<Record<string, readonly ToolAct[]>>;
  readonly capacity?: number;
  readonly allow_unknown?: boolean;
  readonly handler_ms?: number;
  readonly suspend_ms?: number;
  readonly drain_ms?: number;
}

/** Points at which handlers wait, by name. */
export class Holds {
  readonly #points = new Map<
    string,
    { readonly wait: Promise<void>; readonly release: () => void }
  >();

  readonly #armed = new Map<string, string>();

  /** Has the next handler that comes to a point `die` there, or `hold`. */
  arm(name: string, how: string): void {
    this.#armed.set(name, how);
    this.#points.delete(name);
  }

  /** What the next one at a point is to do; undefined: go on. */
  take(name: string): string | undefined {
    const how = this.#armed.get(name);
    this.#armed.delete(name);
    return how;
  }

  /** Comes to a point at which the runner may have the process die, or hold. */
  async pass(name: string): Promise<void> {
    const how = this.take(name);
    if (how === "die") {
      die();
    }
    if (how === "hold") {
      await this.wait(name);
    }
  }

  #point(name: string) {
    let point = this.#points.get(name);
    if (!point) {
      let release: () => void = () => undefined;
      const wait = new Promise<void>((resolve) => {
        release = resolve;
      });
      point = { wait, release };
      this.#points.set(name, point);
    }
    return point;
  }

  /** Lets those go on that wait at a point, and all that come to it. */
  release(name: string): void {
    this.#point(name).release();
  }

  /** Waits at a point. */
  async wait(name: string): Promise<void> {
    event("holding", { name });
    await this.#point(name).wait;
  }
}

/** Ends the process as a crash does. */
function die(): never {
  process.kill(process.pid, "SIGKILL");
  throw new Error("it lives on");
}

/** A result whose text kills the process, so that it is never sent. */
const DEADLY = {
  get paid(): Json {
    return die();
  },
};

/** Plays a script and reports what it does. */
export class Player {
  readonly #count = new Map<string, number>();

  constructor(
    readonly script: Script,
    readonly holds: Holds,
    readonly ledger: string,
  ) {}

  #next<Act>(kind: string, name: string, acts: readonly Act[] = []): Act {
    const number = this.#count.get(kind + name) ?? 0;
    this.#count.set(kind + name, number + 1);
    return acts[Math.min(number, acts.length - 1)] as Act;
  }

  /** The handlers of prompts, or of agents. */
  turns(kind: "turns" | "agents"): Record<string, (turn: Turn) => Promise<Reply>> {
    return named(this.script[kind], (name) => this.#turn(kind, name));
  }

  /** The handlers of tools. */
  tools(): Record<string, (payload: Json, call: ToolCall) => Promise<Json>> {
    return named(this.script.tools, (name) => this.#tool(name));
  }

  #turn(kind: "turns" | "agents", name: string): (turn: Turn) => Promise<Reply> {
    return async (turn) => {
      const act = this.#next(kind, name, this.script[kind]?.[name]);
      const { prompt, state, visit, attempt } = turn;
      event("turn", { prompt, state, visit, attempt, steps: canon(turn.steps) });
      await makeRounds(turn, act.rounds ?? [], {
        hold: (name) => this.holds.wait(name),
        at: (name) => this.holds.pass(name),
        enter: (line) => this.#enter(line),
      });
      for (const call of act.steps ?? []) {
        await this.#step(turn, call);
      }
      if (act.set) {
        await turn.setArtifacts(valuesOf(act.set));
      }
      if (act.partial !== undefined) {
        await turn.output(act.partial);
      }
      if (act.hold !== undefined) {
        await this.holds.wait(act.hold);
      }
      if (act.raise !== undefined) {
        throw new Error(act.raise);
      }
      if (act.fail) {
        throw failTurn(act.fail.code, act.fail.message, { retryable: !act.fail.non_retryable });
      }
      return "return" in act ? (act.return as Reply) : replyOf(act);
    };
  }

  async #step(turn: Turn, call: Call): Promise<void> {
    const { tool, payload, payload_json: text, key } = call;
    const given = text
      ? (new JsonText(JSON.parse(text), text) as unknown as Json)
      : (payload ?? {});
    try {
      const result = await turn.step(tool, given, { key });
      event("stepped", { tool, result, error: "" });
    } catch (error) {
      if (error instanceof PawlError) {
        event("stepped", { tool, result: null, error: fault(error).reason });
      }
      if (!call.catch) {
        throw error;
      }
    }
  }

  #tool(name: string): (payload: Json, call: ToolCall) => Promise<Json> {
    return async (payload, call) => {
      const act = this.#next<ToolAct>("tools", name, this.script.tools?.[name]);
      const { step, attempt, idempotencyKey: idempotency_key } = call;
      // The line comes first: the runner may kill this process when it reads the event.
      this.#enter({ tool: name, step, attempt, payload, key: idempotency_key });
      event("tool", { tool: name, payload, step, attempt, idempotency_key });
      if (act.seen !== undefined) {
        return this.#seen(act.seen, payload as { readonly idempotency_key: string });
      }
      await this.holds.pass("effect");
      if (act.late) {
        await past(call.deadline as Date);
        event("late", { tool: name });
      }
      if (act.hold !== undefined) {
        await this.holds.wait(act.hold);
      }
      if (act.raise !== undefined) {
        throw new Error(act.raise);
      }
      if (act.error) {
        const { code, message, unknown } = act.error;
        throw unknown ? failStep(code, message, { unknown }) : failTurn(code, message);
      }
      const how = this.holds.take("answer");
      if (how === "hold") {
        await this.holds.wait("answer");
      }
      return how === "die" ? DEADLY : (act.result ?? null);
    };
  }

  /** Writes down outside, in one write. */
  #enter(line: object): void {
    appendFileSync(this.ledger, `${jsonOf(line)}\n`);
  }

  /** Whether a call stands in the ledger, for who asks what came of it. */
  #seen(tool: string, { idempotency_key: key }: { readonly idempotency_key: string }): Json {
    const lines = readFileSync(this.ledger, "utf8").trim().split("\n");
    const entries = lines.map((line) => JSON.parse(line) as { tool: string; key: string });
    return { happened: entries.some((one) => one.tool === tool && one.key === key), result: 1 };
  }
}

/** What is made of each name. */
function named<Made>(acts: object = {}, make: (name: string) => Made): Record<string, Made> {
  return Object.fromEntries(Object.keys(acts).map((name) => [name, make(name)]));
}

/** Waits until a moment has passed: a timer may fire a little before it. */
async function past(moment: Date): Promise<void> {
  for (let left = 1; left > 0; left = moment.getTime() - Date.now()) {
    await setTimeout(left);
  }
}

/** What a turn is completed with, as it is given to the client. */
export function replyOf(act: ReplyArgs): Reply {
  return {
    event: act.event,
    artifacts: valuesOf(act.artifacts),
    output: act.output,
    messages: act.messages?.map(({ role, text }) => ({ role, content: text })),
    usage: usageOf(act.usage),
    conversationThroughStep: act.conversation_through_step,
  };
}

/** Artifacts as they are given to the client: {$bytes: BASE64} is bytes. */
export function valuesOf(values: Readonly<Record<string, Json>> = {}): Artifacts {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, oneValue(value)]));
}

function oneValue(value: Json): ArtifactLike {
  if (typeof value === "object" && value !== null && "$bytes" in value) {
    return new Uint8Array(Buffer.from(String(value.$bytes), "base64"));
  }
  return value;
}
