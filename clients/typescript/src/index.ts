/**
 * Client of Pawl: starts PromptPack runs, drives and follows them, and executes turns
 * and tools as a worker. The calls of models are in `pawl-client/models`, the generated messages and
 * rarer enums in `pawl-client/v1`.
 */

export { type BlobContent, type BlobHead, blobRef } from "./blobs.js";
export { callHeaders, callMeta } from "./call_key.js";
export {
  type Beginning,
  type Executed,
  type PackOptions,
  PawlClient,
  type RunOptions,
  type StartOptions,
} from "./client.js";
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
export type { ClientOptions, TokenSource } from "./connection.js";
export type { ConsumeOptions, Consumer } from "./consumers.js";
export { DiagnosticCode } from "./diagnostic_code.js";
export type { Driven, DriveOptions, OnOutput } from "./drive.js";
export { ErrorReason } from "./error_reason.js";
export {
  type Conflict,
  type ErrorKind,
  failStep,
  failTurn,
  PawlError,
  type PawlErrorInit,
  type Violation,
} from "./errors.js";
export type { EventsOptions } from "./event_reader.js";
export type { Json } from "./exact_json.js";
export { ApprovalTimeout, StepDecision } from "./gen/pawl/v1/control_pb.js";
export {
  Awaiting,
  Execution,
  RecordKind,
  RunStatus,
  SteerWhen,
  StepKind,
  StepStatus,
  StepVerdict,
} from "./gen/pawl/v1/record_pb.js";
export { RunOrder, UnfitCause, WaitingKind, WaitUntil } from "./gen/pawl/v1/run_pb.js";
export type { ToolHandler, ToolOptions } from "./handlers.js";
export type { Log } from "./log.js";
export { DEFAULT_ADDRESS, type NodeOptions, type Tls } from "./node_transport.js";
export type { ArtifactData, Plain } from "./plain_message.js";
export type { Reply, Usage } from "./reply.js";
export type { CallOptions } from "./retry.js";
export { Run } from "./run.js";
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
export type { DecideOptions, IdOptions, WriteOptions } from "./run_handle.js";
export type { RunInfo } from "./run_reader.js";
export type { RunResult } from "./run_result.js";
export type { Handlers } from "./served_run.js";
export { sidecarPath } from "./sidecar_path.js";
export type { StandardSchema } from "./standard_schema.js";
export type { DiffOptions, ForkOptions } from "./time_travel.js";
export type { ToolCall } from "./tool_call.js";
export type { Tool, Tools } from "./tools.js";
export type { Record, TransitionsOptions } from "./transitions.js";
export {
  type Handler,
  type Step,
  type StepCall,
  type StepOptions,
  Turn,
  type TurnInfo,
  type UntypedHandler,
} from "./turn.js";
export type { Fault, OutputPiece, TurnRef } from "./turn_requests.js";
export { type ToolSchemas, typedTool } from "./typed_tool.js";
export type {
  AgentResult,
  AnyPack,
  AnyTurn,
  PackName,
  PackTypes,
  ToolTypes,
  TurnTypes,
  Values,
  Writes,
} from "./types.js";
export {
  type ArtifactLike,
  type Artifacts,
  type Content,
  JsonText,
  json,
  type MediaPart,
  type MessageLike,
  type Part,
  type PartLike,
  type Slots,
  textOf,
} from "./values.js";
export { Worker } from "./worker.js";
export type { WorkerOptions } from "./worker_options.js";
