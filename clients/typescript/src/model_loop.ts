/**
 * One turn as a conversation with a model: the requests, and the meaning of the answers. It makes
 * no calls, and its next request depends only on the records, so an execution that is repeated has
 * the same rounds.
 */

import { failTurn, PawlError } from "./errors.js";
import { Asking, argumentsOf, ExitTools } from "./exit_tools.js";
import { Awaiting, PartSchema, StepStatus } from "./gen/pawl/v1/record_pb.js";
import {
  type Ask,
  type ConversationMessage,
  callsOf,
  type Offer,
  type Values,
} from "./model_prompt.js";
import type { ModelCall, ModelMessage, ModelRequest } from "./model_step.js";
import { boundOf, maxTokensOf } from "./model_usage_bound.js";
import type { Form } from "./output_schema.js";
import { type Json, plain, sourceOf } from "./plain_message.js";
import type { Reply, Usage } from "./reply.js";
import type { Step, StepCall, Turn } from "./turn.js";
import { JsonText, json, type MessageLike, type Part, partsOf, textOf } from "./values.js";

/** Options of the conversation. */
export interface Manner {
  readonly model: string;
  readonly maxRounds: number;
  /** Undefined: true in states that people move as well. */
  readonly chat: boolean | undefined;
  /** Settings of the program, by the names of the AI SDK; recorded with the parameters. */
  readonly settings: Values;
  /** Returns the form of the value that an answer of a prompt must have. Undefined means text. */
  readonly output: (prompt: string) => Form | undefined;
}

/** The answer of a round, recorded or new. */
export interface IncludedMessages {
  readonly step: number;
  readonly parts: readonly Part[];
  readonly calls: readonly ModelCall[];
  readonly provider?: Json;
  readonly refusal: string;
  readonly finishReason: string;
  readonly usage: Usage;
  /**
   * True means that it was recorded before this execution, perhaps after a request with other text.
   */
  readonly replayed: boolean;
}

/** The outcome of a tool call. */
type Outcome = Awaited<ReturnType<Turn["calls"]>>[number];

/** The user message of a turn without an input. */
/** Finish reason of a provider that paused the answer; it continues with the next request. */
const PAUSED = "pause_turn";
const BEGIN = "Begin.";
const GO_ON = "Go on.";

interface Settings {
  readonly orchestration?: string;
  readonly parameters?: Values;
  readonly model_overrides?: { readonly [model: string]: Override | undefined };
  readonly tool_policy?: { readonly tool_choice?: string; readonly max_rounds?: number };
}

interface Override {
  readonly system_template?: string;
  readonly system_template_prefix?: string;
  readonly system_template_suffix?: string;
  readonly parameters?: Values;
}

/** A message, and the reference to it in the record. */
interface Entry {
  readonly record: ModelMessage;
  readonly message: ConversationMessage;
}

/**
 * The conversation of one turn. The model moves the run only by calling one function, whose enum
 * has the state's allowed events and whose arguments contain the artifacts.
 */
export class Talk {
  /** Set when the turn is over. */
  reply: Reply | undefined;
  round = 0;
  readonly #turn: Turn;
  readonly #manner: Manner;
  readonly #leave: ExitTools;
  readonly #asking: Asking;
  readonly #system: string;
  readonly #parameters: Values;
  readonly #tools: readonly Offer[];
  readonly #chat: boolean;
  readonly #choice: string;
  readonly #most: number;
  readonly #form: Form | undefined;
  readonly #history: ConversationMessage[];
  #fresh: ModelMessage[];
  /** The last answer, and the number of messages when it came. */
  #last: IncludedMessages | undefined;
  #known = 0;
  /** Replies to the calls of the last answer, by index. */
  #replies = new Map<number, Entry>();

  /** Throws failTurn for settings of the pack that cannot be applied. */
  constructor(turn: Turn, manner: Manner) {
    this.#turn = turn;
    this.#manner = manner;
    this.#form = manner.output(turn.prompt);
    this.#leave = new ExitTools(turn, this.#form?.schema);
    this.#asking = new Asking(turn);
    const settings = (turn.settings ?? {}) as Settings;
    const override = settings.model_overrides?.[manner.model] ?? {};
    this.#system = systemOf(turn.systemPrompt, override);
    this.#parameters = present({ ...settings.parameters, ...override.parameters });
    const moved = settings.orchestration === "hybrid" || settings.orchestration === "external";
    this.#chat = (manner.chat ?? moved) && !turn.terminal;
    this.#choice = settings.tool_policy?.tool_choice ?? "auto";
    this.#tools = this.#offers();
    // The last round must leave the state. The sidecar holds the turn to the bound of the pack.
    this.#most = Math.min(manner.maxRounds + 1, settings.tool_policy?.max_rounds || Infinity);
    this.#history = [...turn.messages];
    this.#fresh = turn.messages.length > 0 ? [{ conversation: {} }] : [];
    const last = turn.messages.at(-1);
    if (!last || last.role === "assistant") {
      // A request needs more than a system prompt, and must not end with the model's own message.
      this.#append({ role: "user", content: last ? GO_ON : BEGIN });
    }
  }

  /**
   * Returns the request of the next round, in the form of the record. Throws failTurn (MAX_ROUNDS).
   */
  request(): ModelRequest {
    if (this.round === this.#most) {
      throw failTurn("MAX_ROUNDS", "the model did not come to an end");
    }
    this.round += 1;
    const { model } = this.#manner;
    const messages = this.#fresh;
    const previousStep = this.#last?.step;
    if (this.#last && !this.#last.replayed) {
      return { model, previousStep, messages };
    }
    const choice: Values = this.#required ? { tool_choice: "required" } : {};
    const schema = this.#schema;
    const parameters = {
      ...this.#parameters,
      ...choice,
      ...(schema === undefined ? {} : { response_schema: schema }),
      ...this.#manner.settings,
    };
    const tools = this.#tools as unknown as Json;
    const system = this.#system;
    if (previousStep !== undefined) {
      return { model, previousStep, system, tools, parameters, messages };
    }
    const said = {
      ...(system ? { system } : {}),
      ...(this.#tools.length > 0 ? { tools } : {}),
      ...(Object.keys(parameters).length > 0 ? { parameters } : {}),
    };
    return { model, ...said, messages };
  }

  /** Adds the messages that the sidecar added to the request of the round. */
  include(included: readonly { readonly text: string }[]): void {
    for (const { text } of included) {
      this.#history.push(entryOf({ role: "user", content: text }).message);
    }
  }

  /**
   * Returns the request for a provider, with every message. `reserved` is the number of answer
   * tokens that a budget reserves; 0: none.
   */
  ask(reserved = 0): Ask {
    const { settings } = this.#manner;
    return {
      most: reserved || maxTokensOf({ parameters: this.#parameters, settings }),
      system: this.#system,
      tools: this.#tools,
      parameters: this.#parameters,
      choice: this.#required ? "required" : "auto",
      schema: this.#schema,
      messages: this.#history,
      settings,
    };
  }

  /** Returns the ids of the calls in the conversation. */
  callIds(): string[] {
    return this.#history.flatMap((said) => callsOf(said).map(({ id }) => id));
  }

  /** Returns the most that the next call may consume. */
  bound(): Usage {
    return boundOf(this.ask(), this.#last?.usage ?? {}, this.#history.slice(this.#known));
  }

  /** Takes the answer of a round and returns the tool calls to make before the next one. */
  async onAnswer(answer: IncludedMessages): Promise<readonly StepCall[]> {
    const { parts, calls, provider, refusal, finishReason } = answer;
    this.#last = answer;
    this.#fresh = [];
    this.#replies = new Map();
    const result = calls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given }));
    const toolCalls = result.length > 0 ? result : undefined;
    this.#history.push({ role: "assistant", parts, toolCalls, toolCallId: "", provider, refusal });
    this.#known = this.#history.length;
    const [first] = calls;
    if (!first && finishReason === PAUSED) {
      return []; // The provider continues the answer when the next request repeats it.
    }
    if (!first) {
      await this.#endOfText(textOf(parts));
      return [];
    }
    if (calls.length === 1 && (await this.#isolated(textOf(parts), first))) {
      return [];
    }
    const prompt = calls.flatMap((call, index) => this.#callOf(index, call));
    if (prompt.length === 0) {
      this.#appendAnswers();
    }
    return prompt;
  }

  /** Takes the outcomes of the tool calls. */
  answered(calls: readonly StepCall[], outcomes: readonly Outcome[]): void {
    for (const [at, { step, denial }] of outcomes.entries()) {
      const index = calls[at]?.call?.index ?? 0;
      const { id = "" } = this.#last?.calls[index] ?? {};
      if (step) {
        this.#replies.set(index, resultEntry(step, id));
      } else {
        const { code = "DENIED", message = "" } = denial ?? {};
        this.#replies.set(index, entryOf(errorMessage(id, code, message)));
      }
    }
    this.#appendAnswers();
  }

  /**
   * A text must fit the schema only if no call, which would contain the value, leaves the state.
   */
  get #schema(): Json | undefined {
    return this.#leave.possible ? undefined : this.#form?.schema;
  }

  get #required(): boolean {
    return this.#choice === "required" && this.#tools.length > 0;
  }

  /**
   * The functions that the model can call. `tool_choice: none` leaves only the one that leaves the
   * state.
   */
  #offers(): readonly Offer[] {
    const nothing = { type: "object", properties: {} };
    const tools = this.#choice === "none" ? [] : this.#turn.tools;
    const offers = tools.map(({ name, description, parameters }): Offer => {
      return { name, description, parameters: parameters ?? nothing };
    });
    if (this.#leave.possible) {
      offers.push(this.#leave.tool());
    }
    if (this.#chat) {
      offers.push(this.#asking.tool());
    }
    return offers;
  }

  #offered(name: string): boolean {
    return this.#tools.some((tool) => tool.name === name);
  }

  #append(message: MessageLike): void {
    this.#add(entryOf(message));
  }

  #add({ record, message: said }: Entry): void {
    this.#fresh.push(record);
    this.#history.push(said);
  }

  #appendAnswers(): void {
    for (const [, entry] of [...this.#replies].sort(([a], [b]) => a - b)) {
      this.#add(entry);
    }
  }

  async #endOfText(text: string): Promise<void> {
    if (this.#chat || !this.#leave.possible) {
      await this.#answer(text, this.#chat ? { awaiting: Awaiting.INPUT } : {});
    } else {
      const content = `Call ${this.#leave.name} to go on; text alone does not move the run.`;
      this.#append({ role: "user", content });
    }
  }

  /** Takes the text as the answer, if it fits the schema. */
  async #answer(text: string, reply: Reply): Promise<void> {
    if (this.#schema === undefined || !this.#form) {
      this.#done(text, reply);
      return;
    }
    const given = await this.#form.text(text);
    if ("fault" in given) {
      const content = `The answer does not fit the schema: ${given.fault}. Answer with JSON that fits.`;
      this.#append({ role: "user", content });
      return;
    }
    this.#valued(given.value, reply);
  }

  #valued(value: Json, reply: Reply): void {
    this.#done("", reply);
    this.reply = { ...this.reply, output: [json(value)] };
  }

  /** Leaves the state or asks the person, if the call says so. */
  async #isolated(text: string, call: ModelCall): Promise<boolean> {
    if (!this.#offered(call.name)) {
      return false;
    }
    if (call.name === this.#leave.name) {
      await this.#tryExit(text, call);
      return true;
    }
    if (call.name === this.#asking.name) {
      this.#tryToAsk(text, call);
      return true;
    }
    return false;
  }

  async #tryExit(text: string, call: ModelCall): Promise<void> {
    const left = this.#leave.read(call);
    if ("fault" in left) {
      this.#append(errorMessage(call.id, "BAD_ARGUMENTS", left.fault));
      return;
    }
    const { output, ...reply } = left;
    const messages = [resultMessage(call.id, { left: left.event })];
    if (output === undefined || !this.#form) {
      this.#done(text, { ...reply, messages });
      return;
    }
    const given = await this.#form.value(output);
    if ("fault" in given) {
      this.#append(errorMessage(call.id, "BAD_ARGUMENTS", `output: ${given.fault}`));
      return;
    }
    this.#valued(given.value, { ...reply, messages });
  }

  #tryToAsk(text: string, call: ModelCall): void {
    const requested = this.#asking.read(call);
    if ("fault" in requested) {
      this.#append(errorMessage(call.id, "BAD_ARGUMENTS", requested.fault));
      return;
    }
    const said = text ? `${text}\n${requested.question}` : requested.question;
    const messages = [resultMessage(call.id, { asked: true })];
    this.#done(said, { messages, awaiting: Awaiting.INPUT });
  }

  #done(text: string, reply: Reply): void {
    this.reply = { ...reply, output: text || undefined, conversationThroughStep: this.#last?.step };
  }

  /** Returns the step of a call; none if the model receives an error instead. */
  #callOf(index: number, call: ModelCall): StepCall[] {
    const given = argumentsOf(call);
    const fault = this.#faultOf(call, given);
    if (fault || typeof given === "string") {
      const [code, text] = fault ?? ["BAD_ARGUMENTS", `${given}`];
      this.#replies.set(index, entryOf(errorMessage(call.id, code, text)));
      return [];
    }
    const modelStep = this.#last?.step ?? 0;
    // With the model's own digits: a JsonText is written as its text.
    const payload = new JsonText(given, call.arguments || undefined) as unknown as Json;
    return [{ tool: call.name, payload, call: { modelStep, index } }];
  }

  #faultOf({ name }: ModelCall, given: Values | string): [code: string, text: string] | undefined {
    const own = name === this.#leave.name || name === this.#asking.name;
    if (own && this.#offered(name)) {
      return ["NOT_ALONE", `call ${name} alone, once all other calls are answered`];
    }
    if (own || !this.#offered(name)) {
      const known = this.#tools.map((tool) => tool.name).filter((other) => !this.#isOwn(other));
      return ["NO_SUCH_TOOL", `there is no tool ${JSON.stringify(name)}, only ${known.join(", ")}`];
    }
    if (typeof given === "string") {
      return ["BAD_ARGUMENTS", given];
    }
    try {
      this.#turn.checkPayload(name, given);
      return undefined;
    } catch (error) {
      if (PawlError.is(error) && error.kind === "schema") {
        return ["BAD_ARGUMENTS", error.message];
      }
      throw error;
    }
  }

  #isOwn(name: string): boolean {
    return name === this.#leave.name || name === this.#asking.name;
  }
}

/** Returns the system prompt that the pack has for the model. */
function systemOf(prompt: string, override: Override): string {
  const words = ["system_template", "system_template_prefix", "system_template_suffix"] as const;
  const open = words.find((word) => override[word]?.includes("{{"));
  if (open) {
    const text =
      `model_overrides.${open}: must be text without variables, which are not rendered; ` +
      "use system_template_prefix and system_template_suffix without variables";
    throw failTurn("OVERRIDE_UNSUPPORTED", text, { retryable: false });
  }
  const { system_template: template, system_template_prefix: prefix = "" } = override;
  return `${prefix}${template || prompt}${override.system_template_suffix ?? ""}`;
}

function present(values: Values): Values {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

function entryOf(message: MessageLike): Entry {
  const parts = partsOf(message.content).map((part) => plain(PartSchema, part));
  const { role, toolCallId = "" } = message;
  const said = { role, parts, toolCallId, toolCalls: undefined, provider: undefined, refusal: "" };
  return { record: { message }, message: said };
}

/** Returns the message of an answered step to the model, as the contract defines it. */
function resultEntry(step: Step, callId: string): Entry {
  if (step.status === StepStatus.CANCELLED) {
    const text = `step ${step.step} (${step.tool}) was cancelled: the visit was left`;
    throw new PawlError("step_cancelled", text);
  }
  const failed = step.status === StepStatus.ERROR;
  const { code = "ERROR", message = "" } = step.error ?? {};
  const reply = failed ? errorMessage(callId, code, message) : recordedMessage(callId, step);
  return { record: { result: { step: step.step, callId } }, message: entryOf(reply).message };
}

/** Returns the result with the same bytes as the record. */
function recordedMessage(toolCallId: string, step: Step): MessageLike {
  const text = sourceOf(step, "result") || undefined;
  return { role: "tool", content: [new JsonText(step.result ?? null, text)], toolCallId };
}

function resultMessage(toolCallId: string, value: Json): MessageLike {
  return { role: "tool", content: [json(value)], toolCallId };
}

function errorMessage(toolCallId: string, code: string, message: string): MessageLike {
  return resultMessage(toolCallId, { error: { code, message } });
}
