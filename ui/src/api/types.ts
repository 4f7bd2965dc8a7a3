/**
 * The messages of the contract (proto/pawl/v1) that the page reads, as the gateway writes them:
 * ProtoJSON, so 64-bit numbers are strings and absent fields have their defaults.
 */

export type Status =
  | "RUNNING"
  | "WAITING"
  | "COMPLETED"
  | "BUDGET_EXHAUSTED"
  | "ESCALATED"
  | "FAILED"
  | "CANCELLED";

export const STATUSES: readonly Status[] = [
  "RUNNING",
  "WAITING",
  "COMPLETED",
  "BUDGET_EXHAUSTED",
  "ESCALATED",
  "FAILED",
  "CANCELLED",
];

export interface PackRef {
  id: string;
  version: string;
  digest: string;
}

export interface Fault {
  code: string;
  message?: string;
  /** Where the reporter's code threw the error. */
  trace?: string;
}

export interface TurnRef {
  turnSeq: string;
  state: string;
  visit: number;
  attempt: number;
}

/** The model's tool call that a step makes. */
export interface CallRef {
  modelStep: number;
  index?: number;
}

export interface ModelCall {
  id?: string;
  name?: string;
  /** The text from the model, JSON or not. */
  arguments?: string;
}

export interface ModelAnswer {
  parts?: Part[];
  calls?: ModelCall[];
  refusal?: string;
  finishReason?: string;
  model?: string;
  responseId?: string;
  providerJson?: string;
}

export interface ModelRequest {
  model: string;
  previousStep?: number;
  hash?: string;
}

/** Fields of a MODEL step that other steps lack. */
export interface ModelStep {
  request?: ModelRequest;
  answer?: ModelAnswer;
  usage?: Usage;
  responseId?: string;
  notBefore?: string;
  requestChanged?: boolean;
}

/** The request of a MODEL step, with every reference resolved. */
export interface ModelAsked {
  step: Step;
  system?: string;
  toolsJson?: string;
  parametersJson?: string;
  messages?: Message[];
  redacted?: boolean;
}

export interface Step {
  step: number;
  key?: string;
  tool: string;
  status?: string;
  attempt?: number;
  turnSeq?: string;
  delegation?: boolean;
  kind?: string;
  model?: ModelStep;
  call?: CallRef;
  payloadJson?: string;
  resultJson?: string;
  error?: Fault;
  deadline?: string;
  redacted?: boolean;
  approval?: { held?: boolean; since?: string; digest: string };
}

/** An open decision of a person: a held call, or an outside event. */
export interface Approval {
  runId: string;
  packId: string;
  packVersion: string;
  state: string;
  since: string;
  starter?: string;
  call?: Step;
  conditionError?: string;
  onTimeout?: string;
  notStarter?: boolean;
  events?: { event: string; toState: string; description?: string; terminal?: boolean }[];
  artifacts?: Artifact[];
  artifactsOmitted?: boolean;
  visitSeq?: string;
}

export interface ArtifactHead {
  name: string;
  mediaType?: string;
  mode?: string;
  seq?: string;
  writes?: number;
  bytes?: string;
}

export interface ArtifactValue {
  json?: string;
  text?: string;
  data?: string;
  mediaType?: string;
}

export interface Artifact {
  head: ArtifactHead;
  value?: ArtifactValue;
}

export interface ArtifactWrite {
  name: string;
  value?: ArtifactValue;
}

export interface Parent {
  runId: string;
  step: number;
  attempt: number;
}

/** What a run has used of one of the operator's accounts. */
export interface AccountShare {
  name: string;
  windowStart?: string;
  settledTokens?: string;
  settledCostMicroUsd?: string;
  reservedTokens?: string;
  reservedCostMicroUsd?: string;
}

/** One of the operator's accounts over runs; a limit of 0 means that there is none. */
export interface Account extends AccountShare {
  windowEnd?: string;
  maxTokens?: string;
  maxCostMicroUsd?: string;
  refused?: string;
}

/** What a run waits for. */
export interface Waiting {
  /** "WAITING_KIND_NO_WORKER". */
  kind: string;
  sentence: string;
}

/** Limits of a run's consumption of tokens and money. */
export interface RunBudgets {
  maxTokens?: string;
  maxCostMicroUsd?: string;
}

export interface Run {
  runId: string;
  pack: PackRef;
  entry?: string;
  agent?: string;
  entryOverride?: boolean;
  imported?: boolean;
  execution?: string;
  labels?: Record<string, string>;
  status: string;
  reason?: string;
  paused?: boolean;
  state?: string;
  seq: string;
  visitSeq?: string;
  visits?: Record<string, number>;
  edges?: { state: string; event: string; count: number }[];
  totalVisits?: number;
  transitions?: number;
  toolCalls?: number;
  reframes?: number;
  tokens?: string;
  /** Tokens of usage that was not reported completely. */
  estimatedTokens?: string;
  costMicroUsd?: string;
  reservedTokens?: string;
  reservedCostMicroUsd?: string;
  lentTokens?: string;
  lentCostMicroUsd?: string;
  leased?: boolean;
  compensating?: boolean;
  accounts?: AccountShare[];
  waiting?: Waiting;
  lastStep?: number;
  createdAt?: string;
  updatedAt?: string;
  deadline?: string;
  stateTimeoutAt?: string;
  turn?: TurnRef;
  turnNotBefore?: string;
  turnSuspended?: boolean;
  queuedInputs?: number;
  allowedEvents?: string[];
  steps?: Step[];
  artifacts?: ArtifactHead[];
  artifactBytes?: string;
  messageBytes?: string;
  parent?: Parent;
  task?: { contextId?: string; owner?: string; tenant?: string };
  depth?: number;
  limits?: {
    maxTransitions?: number;
    maxRunArtifactBytes?: string;
    maxMessageBytes?: string;
  };
}

export interface Part {
  text?: string;
  json?: string;
  data?: string;
  uri?: string;
  mediaType?: string;
  filename?: string;
}

export interface Message {
  role: string;
  parts?: Part[];
  toolCallsJson?: string;
  toolCallId?: string;
  providerJson?: string;
  refusal?: string;
}

export interface Usage {
  inputTokens?: string;
  outputTokens?: string;
  costMicroUsd?: string;
  toolCalls?: number;
  cachedTokens?: string;
  reasoningTokens?: string;
  model?: string;
  estimated?: boolean;
}

export interface Redirect {
  state: string;
  guard: string;
}

/** The union of all bodies of records; the kind decides which fields are set. */
export interface Body {
  fromState?: string;
  event?: string;
  toState?: string;
  intendedState?: string;
  redirects?: Redirect[];
  visit?: number;
  totalVisits?: number;
  artifactsWritten?: ArtifactWrite[];
  parts?: Part[];
  queued?: boolean;
  messageId?: string;
  state?: string;
  turnSeq?: string;
  attempt?: number;
  assigned?: { worker?: string; delivery?: number; at?: string };
  output?: Part[];
  messages?: Message[];
  usage?: Usage;
  error?: Fault;
  retryable?: boolean;
  next?: number;
  notBefore?: string;
  pending?: number[];
  step?: number;
  key?: string;
  tool?: string;
  payloadJson?: string;
  delegation?: boolean;
  deadline?: string;
  ok?: boolean;
  resultJson?: string;
  unknown?: boolean;
  worker?: string;
  denial?: { code: string; message?: string };
  note?: string;
  /** Of a request without a change, its name; of a step, the model's call that it makes. */
  call?: string | CallRef;
  /** Of a step: STEP_KIND_MODEL for a model call. */
  kind?: string;
  model?: ModelRequest;
  bound?: Usage;
  requestChanged?: boolean;
  answer?: ModelAnswer;
  responseId?: string;
  id?: string;
  runId?: string;
  seq?: string;
  status?: string;
  reason?: string;
  finalArtifacts?: Artifact[];
  piece?: { artifactId?: string; name?: string; parts?: Part[] };
  remote?: { taskId?: string; contextId?: string; cardUrl?: string; awaiting?: unknown };
  question?: Part[];
  /** Of an attempt with an unknown outcome: the step that reconciles it. */
  by?: number;
  verdict?: string;
  digest?: string;
  expires?: string;
  /** Text of a message, or of a notice. */
  text?: string;
  when?: string;
  code?: string;
  maxTokens?: string;
  maxCostMicroUsd?: string;
  previousMaxTokens?: string;
  previousMaxCostMicroUsd?: string;
  /** Results of evals. */
  results?: EvalResult[];
}

/** The result of one eval of the pack. */
export interface EvalResult {
  id: string;
  score?: number;
  passed?: boolean;
  explanation?: string;
  error?: string;
}

export const KINDS = [
  "transition",
  "inputReceived",
  "turnOpened",
  "turnAssigned",
  "turnCompleted",
  "turnFailed",
  "turnAbandoned",
  "turnSuspended",
  "stepRequested",
  "stepResolved",
  "stepRejected",
  "stepCancelled",
  "artifactsSet",
  "paused",
  "resumed",
  "origin",
  "ended",
  "turnReady",
  "outputWritten",
  "stepDelegated",
  "noChange",
  "modelUpdated",
  "budgetRaised",
  "steered",
  "stopped",
  "noticeAdded",
  "stepDecided",
  "stepOutcomeUnknown",
  "compensationStarted",
  "evaluated",
] as const;

export type Kind = (typeof KINDS)[number];

export type WireRecord = {
  runId: string;
  seq: string;
  prevSeq?: string;
  cursor: string;
  at: string;
  cause?: string;
  principal?: string;
  hash?: string;
} & Partial<Record<Kind, Body>>;

/** A piece of the output of an open turn; the final output is in a record. */
export interface OutputChunk {
  turnSeq: string;
  offset?: string;
  text?: string;
  /** True: the pieces of this turn that came before are void. */
  reset?: boolean;
  reasoning?: boolean;
}

/** A record in the form that the page keeps. */
export interface Entry {
  runId: string;
  seq: number;
  prevSeq: number;
  cursor: string;
  at: string;
  cause: string;
  principal: string;
  hash: string;
  kind: Kind | "unknown";
  body: Body;
}

export interface Turn {
  turn: TurnRef;
  prompt?: string;
  systemPrompt?: string;
  messages?: Message[];
  tools?: { name: string; description?: string; parametersJson?: string; agent?: boolean }[];
  allowedEvents?: string[];
  steps?: Step[];
  artifactSlots?: { name: string; mediaType?: string; mode?: string; description?: string }[];
  variablesJson?: string;
  settingsJson?: string;
  terminal?: boolean;
}

export interface GraphNode {
  name: string;
  prompt?: string;
  description?: string;
  entry?: boolean;
  terminal?: boolean;
  maxVisits?: number;
  onMaxVisits?: string;
  orchestration?: string;
  persistent?: boolean;
  artifacts?: string[];
}

export interface GraphEdge {
  fromState: string;
  event?: string;
  toState: string;
  kind?: string;
  maxIterations?: number;
}

export interface Graph {
  pack: PackRef;
  entry: string;
  nodes?: GraphNode[];
  edges?: GraphEdge[];
  mermaid?: string;
  dot?: string;
}

export interface Diagnostic {
  code: string;
  severity: string;
  pointer?: string;
  line?: number;
  column?: number;
  message: string;
  hint?: string;
}

export interface Termination {
  agent?: string;
  bounded?: boolean;
  maxVisits?: string;
  exact?: boolean;
  cycle?: { from: string; event?: string; to: string }[];
  alsoLimitedBy?: string[];
  boundedBy?: string[];
}

export interface Pack {
  id: string;
  version: string;
  digest: string;
  name?: string;
  description?: string;
  isDefault?: boolean;
  registeredAt?: string;
  sizeBytes?: string;
  entry?: string;
  agents?: string[];
}

export interface PackReport {
  pack: Pack;
  content?: string;
  diagnostics?: Diagnostic[];
  termination?: Termination;
  agentTerminations?: Termination[];
}

export interface ValidateReport {
  ok?: boolean;
  digest?: string;
  id?: string;
  version?: string;
  diagnostics?: Diagnostic[];
  termination?: Termination;
  agentTerminations?: Termination[];
}

export interface Caller {
  principal: string;
  scopes?: string[];
}

export interface HeldWork {
  runId: string;
  turnSeq?: string;
  step?: number;
  tool?: string;
  attempt?: number;
  since?: string;
  deadline?: string;
}

export interface ConnectedWorker {
  workerId: string;
  principal?: string;
  client?: string;
  packs?: string[];
  prompts?: string[];
  agents?: string[];
  tools?: string[];
  turnCapacity?: number;
  stepCapacity?: number;
  turns?: HeldWork[];
  steps?: HeldWork[];
  heldTurns?: number;
  heldSteps?: number;
  connectedAt?: string;
  seenAt?: string;
  draining?: boolean;
  turnCounts?: WorkCounts;
  stepCounts?: WorkCounts;
  lastFailure?: WorkFailure;
  failingMoreThanPeers?: boolean;
}

/** The counts are 64-bit integers, which are strings in JSON. */
export interface WorkCounts {
  taken?: string;
  failed?: string;
  lost?: string;
}

export interface WorkFailure {
  at?: string;
  runId: string;
  pack?: PackRef;
  prompt?: string;
  agent?: string;
  tool?: string;
  attempt?: number;
  lost?: boolean;
  error?: Fault;
}

export interface ReadyWork {
  pack?: PackRef;
  prompt?: string;
  agent?: string;
  tool?: string;
  count?: number;
  workers?: number;
}

export interface WorkerList {
  workers?: ConnectedWorker[];
  ready?: ReadyWork[];
  totalWorkers?: number;
}

export interface DeliveryRef {
  kind: string;
  runId?: string;
  id: string;
}

export interface Delivery {
  deliveryRef: DeliveryRef;
  owner?: string;
  url?: string;
  attempts?: number;
  nextAt?: string;
  lastError?: string;
  deadLetters?: string;
  done?: boolean;
}

export interface Webhook {
  webhookId: string;
  owner?: string;
  url?: string;
  filter?: { pack?: string; state?: string; statuses?: string[]; labels?: Record<string, string> };
  kinds?: string[];
  attempts?: number;
  nextAt?: string;
  lastError?: string;
  deadLetters?: string;
  createdAt?: string;
}

export interface DeadLetter {
  n: string;
  at?: string;
  eventId?: string;
  mediaType?: string;
  error?: string;
  size?: string;
  body?: string;
}
