/** Executes the turns of a run and passes its events to the caller. */

import type { Connection } from "./connection.js";
import { PawlError } from "./errors.js";
import { EventReader } from "./event_reader.js";
import { follow } from "./follow.js";
import type { RunEvent } from "./run_events.js";
import type { RunReader } from "./run_reader.js";
import { type RunResult, readResult } from "./run_result.js";
import { serverOf } from "./run_server.js";
import { type Handlers, ServedRun } from "./served_run.js";
import type { Tools } from "./tools.js";
import type { AnyPack, NameOf, PackTypes } from "./types.js";

/** Receives the events of a run in order; the next one follows when the promise has resolved. */
export type OnOutput = (event: RunEvent) => void | Promise<void>;

/**
 * A run that this process drives: a promise of its result, which also iterates over its events.
 *
 *     const driven = client.run("support", modelHandler(openai("gpt-5-mini")), {
 *       input: "Where is my order?",
 *     });
 *     for await (const event of driven) {
 *       if (event.kind === "text") process.stdout.write(event.text);
 *     }
 *     const result = await driven;
 *
 * The run continues whether or not its events are read. Leaving the loop early abandons the run,
 * and another `drive` continues it. An error of the run is thrown in the loop and by the promise.
 */
export type Driven<P extends PackTypes> = Promise<RunResult<P>> &
  AsyncIterable<RunEvent, void, undefined>;

/** A run that is being driven, and the function that abandons it. */
export interface Drive<P extends PackTypes> {
  readonly connection: Connection;
  readonly runId: string;
  readonly result: Promise<RunResult<P>>;
  readonly giveUp: (error: unknown) => void;
}

/** Options of `drive`. */
export interface DriveOptions<P extends PackTypes = AnyPack> {
  /** Tools that this process executes. */
  readonly tools?: Tools<P>;
  /**
   * Tools that workers execute; "*": all without an entry in `tools`. Default: none. A handler that
   * calls another tool has a mistake, and NO_HANDLER is thrown at once.
   */
  readonly workerTools?: readonly (NameOf<P["tools"]> | "*")[];
  /** Its abort abandons the run. */
  readonly signal?: AbortSignal;
  /**
   * Receives each event of the run in order. An error that it throws abandons the run and is thrown
   * here.
   */
  readonly onOutput?: OnOutput;
}

/** Begins to drive a run. Throws a TypeError for a handler or a tool that is no function. */
export function startDrive<P extends PackTypes>(
  connection: Connection,
  run: RunReader<P>,
  handler: Handlers,
  { signal, tools = {}, workerTools = [] }: DriveOptions<P>,
): Drive<P> {
  const served = new ServedRun(run.id, handler, tools as Tools, connection.log, workerTools);
  served.over.catch(() => undefined); // The run may be abandoned before it is served.
  const serving = serverOf(connection).serve(served, signal);
  const result = serving.then(async () => {
    const read = await readResult(run, { signal }, served);
    served.checkCalls(read.status);
    return read;
  });
  return { connection, runId: run.id, result, giveUp: (error) => served.fail(error) };
}

/** Returns the run that `begin` starts to drive. */
export function driven<P extends PackTypes>(
  begin: () => Promise<Drive<P>>,
  onOutput: OnOutput | undefined,
): Driven<P> {
  const started = begin();
  const result = started.then((drive) => (onOutput ? watched(drive, onOutput) : drive.result));
  const events = () => {
    result.catch(() => undefined); // The loop throws the error.
    return eventsOf(started);
  };
  return Object.assign(result, { [Symbol.asyncIterator]: events });
}

async function watched<P extends PackTypes>(
  drive: Drive<P>,
  onOutput: OnOutput,
): Promise<RunResult<P>> {
  for await (const event of eventsOf(Promise.resolve(drive), onOutput)) {
    void event;
  }
  return drive.result;
}

/** Iterates over the events until the run has ended or waits. */
async function* eventsOf<P extends PackTypes>(
  started: Promise<Drive<P>>,
  onOutput?: OnOutput,
): AsyncGenerator<RunEvent, void, undefined> {
  const { connection, runId, result, giveUp } = await started;
  const reader = new EventReader({ namespace: connection.namespace, runId }, {});
  const end = new AbortController();
  const ended = result.then(
    ({ run: { seq } }) => {
      reader.until = seq;
    },
    () => {
      reader.until = 0;
    },
  );
  // A driven run waits without a limit for a sidecar that is away, so its event stream does, too.
  const awaited = () => reader.until === undefined;
  const stream = follow(connection.runs, reader, { signal: end.signal, awaited });
  let left: unknown = new PawlError(
    "cancelled",
    `the iteration over the events of run ${runId} ended before the run; drive it again`,
  );
  try {
    while (!reader.over) {
      const next = stream.next();
      next.catch(() => undefined);
      const came = await either(next, ended, reader);
      if (!came || came.done) {
        break;
      }
      for (const event of came.value) {
        await onOutput?.(event);
        yield event;
      }
    }
    await result;
    left = undefined;
  } catch (error) {
    left = error;
    throw error;
  } finally {
    if (left !== undefined) {
      giveUp(left);
      await result.catch(() => undefined);
    }
    end.abort();
    await stream.return().catch(() => undefined);
  }
}

/**
 * Returns the next events; undefined if the run has ended or waits and all its events were read.
 */
async function either<T>(
  next: Promise<T>,
  ended: Promise<void>,
  reader: EventReader,
): Promise<T | undefined> {
  const first = await Promise.race([next, ended]);
  if (first !== undefined) {
    return first as T;
  }
  return reader.over ? undefined : next;
}
