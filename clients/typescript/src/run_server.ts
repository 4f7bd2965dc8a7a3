/**
 * Drives runs by a worker of the client's own, which serves only the runs that the client drives.
 */

import type { Connection } from "./connection.js";
import { PawlError } from "./errors.js";
import { Executor } from "./executor.js";
import { type RunUnserved, UnservedCause } from "./gen/pawl/v1/worker_pb.js";
import { warnOf } from "./log.js";
import { aborted, newId, sleep } from "./retry.js";
import { RunReader } from "./run_reader.js";
import type { ServedRun } from "./served_run.js";
import { later, type Timer } from "./timer.js";
import { Work } from "./work_handler.js";

/** How many milliseconds the stream stays open for the next run; consecutive runs share it. */
const LINGER_MS = 100;

/**
 * How many milliseconds the stream of a closed client stays open to report results of its tools.
 */
const CLOSING_MS = 5_000;

const servers = new WeakMap<Connection, RunServer>();

/** Returns the server that drives the runs of a connection. */
export function serverOf(connection: Connection): RunServer {
  const server = servers.get(connection) ?? new RunServer(connection);
  servers.set(connection, server);
  return server;
}

/**
 * Serves runs over one stream, which is open while a run is served or a tool is running. No other
 * worker executes a run that is served: see docs/guides/workers.md.
 */
class RunServer {
  readonly #connection: Connection;
  readonly #runs = new Map<string, ServedRun>();
  readonly #executors = new Map<string, Executor>();
  /** Runs whose release has no receipt yet. */
  readonly #releases = new Map<string, Promise<unknown>>();
  #work: Work | undefined;
  /** How many times the client was closed. */
  #closings = 0;
  /** Ends a stream that has no runs. */
  #leaving: Timer | undefined;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Executes a run until it ends or waits for an outside input. Rejects with the error of `signal`,
   * with RUN_TAKEN_OVER or RUN_DRIVEN, or with the error of the sidecar.
   */
  async serve(run: ServedRun, signal: AbortSignal | undefined): Promise<void> {
    const closings = this.#closings;
    while (this.#releases.has(run.runId)) {
      await this.#releases.get(run.runId);
    }
    if (this.#closings > closings) {
      throw closed();
    }
    if (signal?.aborted) {
      throw aborted(signal);
    }
    if (this.#runs.has(run.runId)) {
      const text = `run ${run.runId} is driven by this client already; wait for that call`;
      throw new PawlError("conflict", text, { reason: "RUN_DRIVEN" });
    }
    const stop = () => run.fail(aborted(signal));
    signal?.addEventListener("abort", stop, { once: true });
    const work = this.#open(run);
    try {
      await run.over;
      await work.turnsSettled(run.runId);
    } catch (error) {
      this.#giveUp(run, work, error);
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
      this.#forget(run);
    }
  }

  /**
   * Abandons all runs, because the client is closed. If tools are running, the stream stays open
   * until their results are reported, at most CLOSING_MS, and the returned promise resolves then.
   */
  close(): Promise<void> | undefined {
    this.#closings += 1;
    const work = this.#work;
    this.#work = undefined;
    this.#leaving?.cancel();
    for (const run of this.#runs.values()) {
      run.fail(closed());
    }
    work?.holdings.giveUpAll(closed());
    if (work && work.holdings.steps.size > 0) {
      return this.#reported(work).finally(() => end(work));
    }
    end(work);
    return undefined;
  }

  /** Waits until the results of tools are reported, at most CLOSING_MS. */
  async #reported(work: Work): Promise<void> {
    const enough = new AbortController();
    const bound = sleep(CLOSING_MS, enough.signal).catch(() => undefined);
    await Promise.race([work.stepsSettled(), bound]);
    enough.abort();
  }

  /** Returns the work to which a run now belongs. */
  #open(run: ServedRun): Work {
    const work = this.#work ?? this.#begin();
    this.#leaving?.cancel();
    this.#runs.set(run.runId, run);
    this.#executors.set(run.runId, this.#executorOf(run, work));
    const request = { item: { case: "serveRun" as const, value: run.request } };
    work.link
      .ask(() => request, run)
      .then(
        () => {
          run.taken = true;
        },
        (error: unknown) => run.fail(error),
      );
    return work;
  }

  #begin(): Work {
    const id = `typescript-${newId()}`;
    /** Runs that the newest registration names. */
    let named: readonly ServedRun[] = [];
    // A stream of a closed client has no runs; runs of a later drive have another stream.
    const current = () => this.#work === work;
    const work: Work = new Work(this.#connection, {
      id,
      title: `driver ${id}`,
      workers: this.#connection.driving,
      registration: () => {
        named = current() ? this.#served() : [];
        return { servedRuns: named.map(({ request }) => request) };
      },
      registered: () => this.#releaseGone(named, work),
      missed: (error) => current() && this.#missed(error),
      executorOf: (runId) => (current() ? this.#executors.get(runId) : undefined),
      unserved: (report) => current() && void this.#unserved(report),
      onError: (error) => warnOf(this.#connection.log, `driver ${id}: a request:`, error),
      idle: () => this.#rest(),
    });
    this.#work = work;
    work.link.live().catch((error: unknown) => {
      // The sidecar refuses a worker of this principal.
      if (this.#work === work) {
        this.#work = undefined;
        for (const run of this.#runs.values()) {
          run.fail(error);
        }
        work.holdings.revokeAll();
      }
    });
    return work;
  }

  #executorOf(run: ServedRun, { link, holdings }: Work): Executor {
    const host = {
      credits: false,
      ask: link.ask,
      credit: () => undefined,
      forget: holdings.drop.bind(holdings),
      onError: run.onError.bind(run),
      warn: (text: string) => this.#connection.log.warn(text),
      began: run.began.bind(run),
      completed: run.completed.bind(run),
      mistaken: run.fail.bind(run),
      wrongCall: run.wrongCall.bind(run),
      mistakeOf: run.mistakeOf.bind(run),
      notExecuted: (_pack: string, tool: string) => run.checkExecuted(tool),
    };
    return new Executor(run.handlers, host, { handlerTimeoutMs: 0, suspendAfterMs: 0 });
  }

  /** Runs for a registration: those that the sidecar lets this process serve. */
  #served(): readonly ServedRun[] {
    return [...this.#runs.values()].filter(({ taken }) => taken);
  }

  /** There is no connection. A run that is not served yet waits as long as a call does. */
  #missed(error: PawlError): void {
    const { retryForMs } = this.#connection.retryWindow;
    for (const run of this.#runs.values()) {
      if (!run.taken && performance.now() - run.since >= retryForMs) {
        run.fail(error);
      }
    }
  }

  async #unserved({ runId, cause }: RunUnserved): Promise<void> {
    const run = this.#runs.get(runId);
    if (cause === UnservedCause.RUN_ENDED || cause === UnservedCause.RUN_WAITING) {
      run?.finish();
    } else if (cause === UnservedCause.TAKEN_OVER) {
      const text = `run ${runId}: another process drives it now, and this process no longer does`;
      run?.fail(new PawlError("conflict", text, { reason: "RUN_TAKEN_OVER" }));
    } else {
      const text = `run ${runId}: the sidecar no longer permits this process to drive it`;
      const refused = new PawlError("permission", text, { reason: "RUN_REFUSED" });
      const reader = new RunReader(this.#connection, runId);
      // A read reports that the run is gone, or not visible to this principal.
      run?.fail(
        await reader.info().then(
          () => refused,
          (error: unknown) => error,
        ),
      );
    }
  }

  /** Abandons a run and stops its turns. Its tools may finish and report their results. */
  #giveUp(run: ServedRun, work: Work, why: unknown): void {
    this.#release(run, work);
    // The process that took the run over waits for the results of its running tools.
    work.holdings.giveUp(run.runId, why, !PawlError.is(why, "RUN_TAKEN_OVER"));
  }

  /** Releases runs that were abandoned while the registration that names them was being sent. */
  #releaseGone(named: readonly ServedRun[], work: Work): void {
    for (const run of named) {
      if (this.#work !== work || this.#runs.get(run.runId) !== run) {
        this.#release(run, work);
      }
    }
  }

  /** Makes the sidecar stop serving a run to this process, if there is a stream. */
  #release({ runId }: ServedRun, work: Work): void {
    const item = { case: "releaseRun" as const, value: { runId } };
    const release = work.link.askNow({ item })?.catch(() => undefined);
    if (release) {
      const done = release.finally(() => {
        this.#releases.delete(runId);
        this.#rest();
      });
      this.#releases.set(runId, done);
    }
  }

  #forget({ runId }: ServedRun): void {
    this.#runs.delete(runId);
    this.#executors.delete(runId);
    this.#rest();
  }

  /** Without runs and running tools the stream is closed soon, so that the process may end. */
  #rest(): void {
    this.#leaving?.cancel();
    if (this.#runs.size === 0 && this.#releases.size === 0 && this.#work?.idle) {
      this.#leaving = later(LINGER_MS, () => this.#leave());
    }
  }

  #leave(): void {
    this.#leaving?.cancel();
    this.#work?.link.close();
    this.#work = undefined;
  }
}

/** Ends a stream and its work. */
function end(work: Work | undefined): void {
  work?.link.close();
  work?.holdings.revokeAll();
}

function closed(): PawlError {
  return new PawlError("cancelled", "the client is closed; create a new one");
}
