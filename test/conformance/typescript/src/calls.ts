/** The verbs, each by the client's own call. */

import {
  type Fault,
  type Json,
  PawlClient,
  RecordKind,
  type Run,
  type StepCall,
  type TurnInfo,
  type TurnRef,
  WaitUntil,
} from "pawl-client";
import { canon, given } from "./canon.js";
import { Control, type ControlArgs, raiseBudget, steer, stopRun } from "./control.js";
import { execute, type ModelArgs } from "./endpoints.js";
import { flood } from "./flood.js";
import { type Asked, askedOf, type Came, outcomeOf, type UsageArgs, usageOf } from "./models.js";
import { Holds, Player, type ReplyArgs, replyOf, type Script, valuesOf } from "./script.js";
import { Tail } from "./tail.js";
import { type Served, Server, serve } from "./work.js";

/** Arguments of every verb; test/conformance/README.md says which of them have which. */
export interface Args extends ReplyArgs, Script, Came, ControlArgs, ModelArgs {
  readonly address?: string;
  readonly token?: string;
  readonly ledger?: string;
  readonly content?: string;
  readonly filename?: string;
  readonly pack?: string;
  readonly packs?: readonly string[];
  readonly run?: string;
  readonly run_id?: string;
  readonly as?: string;
  readonly name?: string;
  readonly worker_id?: string;
  readonly execution?: string;
  readonly agent?: string;
  readonly state?: string;
  readonly variables?: Readonly<{ [name: string]: Json }>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly max_steps?: number;
  readonly conversation?: boolean;
  readonly expected_seq?: number;
  readonly turn?: string;
  readonly ref?: { readonly turn_seq: number; readonly attempt: number; readonly token?: string };
  readonly code?: string;
  readonly message?: string;
  readonly non_retryable?: boolean;
  readonly retry_after?: number;
  readonly calls?: readonly (Omit<StepCall, "call"> & { readonly call?: CallArgs })[];
  readonly round?: number;
  readonly request?: Asked;
  readonly key?: string;
  readonly bound?: UsageArgs;
  readonly response_id?: string;
  readonly reuse_steps?: boolean;
  readonly tool?: string;
  readonly attempt?: number;
  readonly result?: Json;
  readonly error?: Fault & { readonly unknown?: boolean };
  readonly until?: string;
  readonly seconds?: number;
  readonly kinds?: readonly string[];
  readonly after_seq?: number;
  readonly at_seq?: number;
  readonly count?: number;
  readonly serves?: boolean;
  readonly attach?: boolean;
  readonly beats?: number;
  readonly how?: string;
}

interface CallArgs {
  readonly model_step: number;
  readonly index?: number;
}

type Verb = (args: Args) => unknown;

const CURRENT = "current";
const WAIT_SECONDS = 45;

/** Holds what a scenario has named so far. */
export class Driver {
  #client: PawlClient | undefined;
  #address = "";
  #tokenGiven: string | undefined;
  #ledger = "";
  #runs = new Map<string, Run>();
  #turns = new Map<string, TurnInfo>();
  #tails = new Map<string, Tail>();
  #holds = new Holds();
  #control: Control | undefined;
  #serves = false;
  #served: Served | undefined;

  /** Every verb by its name. */
  readonly verbs: Readonly<Record<string, Verb>> = {
    ping: () => undefined,
    reset: (args) => this.#reset(args),
    register: async ({ content = "", filename }) =>
      canon((await this.#clientNow.registerPack(content, { filename })).pack),
    start: (args) => this.#start(args),
    info: async (args) => canon(await this.#run(args).info({ atSeq: args.at_seq })),
    artifacts: async (args) => {
      const values = await this.#run(args).artifacts({ atSeq: args.at_seq });
      return Object.fromEntries(Object.entries(values).map(([name, one]) => [name, given(one)]));
    },
    turn: (args) => this.#turn(args),
    emit: async (args) => {
      const options = { ...this.#write(args), artifacts: valuesOf(args.artifacts) };
      return canon(await this.#run(args).emit(args.event ?? "", options));
    },
    set: async (args) =>
      canon(await this.#run(args).setArtifacts(valuesOf(args.artifacts), this.#write(args))),
    input: async (args) =>
      canon(await this.#run(args).sendInput(args.input ?? "", this.#write(args))),
    complete: async (args) =>
      canon(
        await this.#holder(args).complete(this.#held(args), replyOf(args), {
          id: args.id,
          slots: this.#slots(args),
        }),
      ),
    fail: async (args) => canon(await this.#fail(args)),
    suspend: async (args) =>
      canon(await this.#holder(args).suspend(this.#held(args), { id: args.id })),
    request: async (args) =>
      canon(
        await this.#holder(args).requestSteps(this.#held(args), callsOf(args), { id: args.id }),
      ),
    resolve: async (args) => canon(await this.#resolve(args)),
    request_model: async (args) => canon(await this.#requestModel(args)),
    answer_model: async (args) => canon(await this.#answerModel(args)),
    update_model_call: async (args) => canon(await this.#updateModelCall(args)),
    model: (args) => execute(this.#run(args), args, this.#ledger),
    model_step: async (args) => canon(await this.#run(args).modelStep(args.step ?? 0)),
    fork: (args) => this.#fork(args),
    verify: async (args) => canon(await this.#run(args).verify()),
    pause: async (args) => canon(await this.#run(args).pause(args.note, { id: args.id })),
    resume: async (args) => canon(await this.#run(args).resume(args.note, { id: args.id })),
    cancel: async (args) => canon(await this.#run(args).cancel(args.note, { id: args.id })),
    approvals: (args) => this.#control?.approvals(this.#run(args)),
    decide: (args) => this.#control?.decide(this.#run(args), args),
    steer: (args) => steer(this.#run(args), args),
    stop_run: (args) => stopRun(this.#run(args), args),
    raise_budget: (args) => raiseBudget(this.#run(args), args),
    wait: (args) => this.#wait(args),
    records: (args) => this.#records(args),
    output: (args) => this.#output(args),
    watch: (args) => {
      const { name = "watch", pack, after_seq: afterSeq } = args;
      const kinds = kindsOf(args.kinds);
      const records = pack
        ? this.#clientNow.transitions({ pack }, { kinds })
        : this.#run(args).transitions({ kinds, afterSeq });
      this.#tails.set(name, new Tail(records));
    },
    watched: ({ name = "watch", count = 0 }) => this.#tails.get(name)?.wait(count),
    worker: (args) => this.#work(args),
    serve: (args) => {
      if (!(this.#served instanceof Server)) {
        throw new RangeError("nothing serves runs");
      }
      this.#served.serve(args, startOf(args));
    },
    arm: ({ name = "", how = "" }) => this.#holds.arm(name, how),
    release: ({ name = "" }) => this.#holds.release(name),
    stop: () => this.#served?.stop(),
    flood: (args) => flood(this.#address, args),
  };

  get #clientNow(): PawlClient {
    if (!this.#client) {
      throw new RangeError("reset comes first");
    }
    return this.#client;
  }

  /** Points the driver at a sidecar and forgets all names. */
  #reset({ address = "", token, ledger = "", serves = false }: Args): void {
    this.#client?.close();
    this.#address = address;
    this.#tokenGiven = token || undefined;
    this.#ledger = ledger;
    this.#serves = serves;
    this.#served = undefined;
    this.#client = new PawlClient({ address, token: this.#tokenGiven });
    this.#runs = new Map();
    this.#turns = new Map();
    this.#tails = new Map();
    this.#holds = new Holds();
    this.#control = new Control(this.#client);
  }

  #run({ run_id, run = "run" }: Args): Run {
    const found = run_id === undefined ? this.#runs.get(run) : this.#clientNow.attach(run_id);
    if (!found) {
      throw new RangeError(`no run ${run}`);
    }
    return found;
  }

  async #start(args: Args): Promise<unknown> {
    const how = args.execution === "workers" ? "start" : "open";
    const run = await this.#clientNow[how](args.pack ?? "", startOf(args));
    const alias = [...this.#runs].find(([, known]) => known.id === run.id)?.[0] ?? "";
    this.#runs.set(args.as ?? "run", run);
    return { ...(canon(await run.info()) as object), alias };
  }

  async #turn(args: Args): Promise<unknown> {
    const info = await this.#run(args).turn();
    this.#turns.set(args.as ?? CURRENT, info);
    return canon(info);
  }

  /** The turn that a verb is about: one that was fetched, or one by hand. */
  #held(args: Args): TurnRef {
    if (args.ref) {
      const { turn_seq: turnSeq, attempt, token = "" } = args.ref;
      return { runId: this.#run(args).id, turnSeq, attempt, token };
    }
    const turn = this.#turns.get(args.turn ?? CURRENT)?.turn;
    if (!turn) {
      throw new RangeError(`no turn ${args.turn ?? CURRENT}`);
    }
    return turn;
  }

  #holder(args: Args): Run {
    return this.#clientNow.attach(this.#held(args).runId);
  }

  #slots(args: Args) {
    return this.#turns.get(args.turn ?? CURRENT)?.artifactSlots;
  }

  #token(args: Args): string {
    return args.turn === undefined && args.ref === undefined ? "" : this.#held(args).token;
  }

  #write(args: Args) {
    return {
      id: args.id,
      expectedSeq: args.expected_seq,
      turnToken: this.#token(args),
      slots: this.#slots(args),
    };
  }

  #fail(args: Args) {
    const error = { code: args.code ?? "", message: args.message };
    const options = { id: args.id, retryable: !args.non_retryable, usage: replyOf(args).usage };
    return this.#holder(args).fail(this.#held(args), error, options);
  }

  #resolve(args: Args) {
    const { non_retryable: nonRetryable, retry_after } = args;
    const retryAfterMs = retry_after === undefined ? undefined : retry_after * 1000;
    const error = args.error && { ...args.error, nonRetryable, retryAfterMs };
    const answer = error ? { error } : { result: args.result ?? null };
    const options = { attempt: args.attempt ?? 0, token: this.#token(args) };
    return this.#run(args).resolveStep(args.step ?? 0, args.tool ?? "", answer, options);
  }

  #requestModel(args: Args) {
    const { round = 1, request = { model: "" }, key, bound } = args;
    const ask = { round, request: askedOf(request), key, bound: usageOf(bound) };
    return this.#holder(args).requestModel(this.#held(args), ask);
  }

  #answerModel(args: Args) {
    const { step = 0, attempt = 1 } = args;
    const told = { step, attempt, outcome: outcomeOf(args), usage: usageOf(args.usage) };
    return this.#holder(args).answerModel(this.#held(args), told);
  }

  #updateModelCall(args: Args) {
    const { step = 0, attempt = 1, response_id: responseId = "" } = args;
    return this.#holder(args).updateModelCall(this.#held(args), { step, attempt, responseId });
  }

  async #fork(args: Args): Promise<unknown> {
    const options = { atSeq: args.at_seq, reuseSteps: args.reuse_steps, id: args.id };
    const copy = await this.#run(args).fork(options);
    this.#runs.set(args.as ?? "run", copy);
    return canon(await copy.info());
  }

  /** Begins to work, or to serve runs, as the mode says. */
  #work(args: Args): void {
    if (this.#serves && (args.turns || args.agents)) {
      // Closing it gives the runs up, and the driver's own calls go on.
      const client = new PawlClient({ address: this.#address, token: this.#tokenGiven });
      this.#served = new Server(client, args, this.#holds, this.#ledger);
    } else {
      this.#served = serve(this.#clientNow, args, new Player(args, this.#holds, this.#ledger));
    }
  }

  async #wait(args: Args): Promise<unknown> {
    const until = args.until === "WAITING" ? WaitUntil.WAITING : WaitUntil.TERMINAL;
    const waitMs = (args.seconds ?? WAIT_SECONDS) * 1000;
    const { run, timedOut } = await this.#run(args).wait({ until, waitMs });
    return { ...(canon(run) as object), timed_out: timedOut };
  }

  async #output(args: Args): Promise<unknown> {
    let text = "";
    for await (const event of this.#run(args).events()) {
      if (event.kind === "reset" || event.kind === "turn_began") {
        text = "";
      } else if (event.kind === "text") {
        text += event.text;
      }
      if (text.endsWith(args.text ?? "")) {
        break;
      }
    }
    return { text };
  }

  async #records(args: Args): Promise<unknown> {
    const records: unknown[] = [];
    const options = { kinds: kindsOf(args.kinds), afterSeq: args.after_seq };
    for await (const record of this.#run(args).records(options)) {
      records.push(canon(record));
    }
    return { records };
  }
}

/** What a run is started with, besides its pack. */
function startOf(args: Args) {
  const { agent, state, variables, input, labels, id, max_steps, conversation } = args;
  return {
    agent,
    state,
    variables,
    input,
    labels,
    requestId: id,
    maxSteps: max_steps,
    conversation,
  };
}

function callsOf({ calls = [] }: Args): StepCall[] {
  return calls.map(({ call, ...rest }) => ({
    ...rest,
    call: call && { modelStep: call.model_step, index: call.index ?? 0 },
  }));
}

function kindsOf(words: readonly string[] = []): RecordKind[] {
  return words.map((word) => RecordKind[word as keyof typeof RecordKind]);
}
