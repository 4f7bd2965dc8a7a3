/**
 * Client of Pawl for web pages: it reads packs and runs, follows them, and emits events over the
 * JSON gateway (`pawl serve --http`). It uses no API of Node.
 */

import { brand } from "./brand.js";
import { BaseClient } from "./client_base.js";
import type { ClientOptions } from "./connection.js";
import { type GatewayOptions, gatewayTransport } from "./gateway_transport.js";
import { RunHandle } from "./run_handle.js";

/** Settings of a client for web pages. */
export interface BrowserOptions extends ClientOptions, GatewayOptions {}

/**
 * A client of one sidecar's gateway. The gateway must allow the origin of the page.
 *
 *     import { PawlClient } from "pawl-client/browser";
 *
 *     const client = new PawlClient({ baseUrl: "http://127.0.0.1:8080" });
 *     for await (const run of client.listRuns({ labels: { team: "a" } })) {
 *       console.log(run.runId, run.state);
 *     }
 */
export class PawlClient extends BaseClient {
  static {
    brand(PawlClient, "BrowserClient");
  }

  constructor(options: BrowserOptions = {}) {
    super(gatewayTransport(options), options);
  }

  /**
   * Returns a run by its id. It makes no call: an unknown id fails at the first call of the run.
   */
  attach(runId: string): RunHandle {
    return new RunHandle(this.connection, runId);
  }
}

export type {
  Account,
  Approval,
  Decision,
  Limit,
  Pack,
  RunFilter,
  Schedule,
  UsageGroup,
  UsageOptions,
  UsageReport,
} from "./client_base.js";
export type { ClientOptions } from "./connection.js";
export { ErrorReason } from "./error_reason.js";
export { type Conflict, type ErrorKind, PawlError, type Violation } from "./errors.js";
export type { EventsOptions } from "./event_reader.js";
export type { Json } from "./exact_json.js";
export type { GatewayOptions } from "./gateway_transport.js";
export { ApprovalTimeout, StepDecision } from "./gen/pawl/v1/control_pb.js";
export {
  Awaiting,
  Cause,
  Execution,
  RecordKind,
  RunStatus,
  SteerWhen,
  StepKind,
  StepStatus,
  StepVerdict,
} from "./gen/pawl/v1/record_pb.js";
export { RunOrder, UnfitCause, WaitingKind, WaitUntil } from "./gen/pawl/v1/run_pb.js";
export type { ArtifactData, Plain } from "./plain_message.js";
export type { CallOptions } from "./retry.js";
export type {
  ArtifactEvent,
  CallResult,
  EndEvent,
  EventPlace,
  HistoryMessage,
  MessageEvent,
  ReasoningEvent,
  ResetEvent,
  RoundBeganEvent,
  RoundEndedEvent,
  RunEvent,
  TextEvent,
  ToolCallEvent,
  ToolResultEvent,
  TransitionEvent,
  TurnBeganEvent,
  TurnEndedEvent,
  WaitEvent,
} from "./run_events.js";
export {
  type DecideOptions,
  type IdOptions,
  RunHandle as Run,
  type WriteOptions,
} from "./run_handle.js";
export type { RunInfo } from "./run_reader.js";
export type { RunResult } from "./run_result.js";
export type { Record, TransitionsOptions } from "./transitions.js";
export { type Artifacts, type Content, json, type Part, textOf } from "./values.js";
