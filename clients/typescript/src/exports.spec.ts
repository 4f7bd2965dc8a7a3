/** What each entry point exports, and that it is documented. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const text = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");

const VALUES: { readonly [entry: string]: readonly string[] } = {
  index: [
    "ApprovalTimeout",
    "Awaiting",
    "DEFAULT_ADDRESS",
    "DiagnosticCode",
    "ErrorReason",
    "Execution",
    "JsonText",
    "PawlClient",
    "PawlError",
    "RecordKind",
    "Run",
    "RunOrder",
    "RunStatus",
    "SteerWhen",
    "StepDecision",
    "StepKind",
    "StepStatus",
    "StepVerdict",
    "Turn",
    "UnfitCause",
    "WaitUntil",
    "WaitingKind",
    "Worker",
    "blobRef",
    "callHeaders",
    "callMeta",
    "failStep",
    "failTurn",
    "json",
    "sidecarPath",
    "textOf",
    "typedTool",
  ],
  browser: [
    "ApprovalTimeout",
    "Awaiting",
    "Cause",
    "ErrorReason",
    "Execution",
    "PawlClient",
    "PawlError",
    "RecordKind",
    "Run",
    "RunOrder",
    "RunStatus",
    "SteerWhen",
    "StepDecision",
    "StepKind",
    "StepStatus",
    "StepVerdict",
    "UnfitCause",
    "WaitUntil",
    "WaitingKind",
    "json",
    "textOf",
  ],
  ai_sdk: ["agent", "agentPack", "bounds", "currentCall"],
  models: ["modelHandler"],
  pack: ["Pack", "append", "definePack", "tool"],
  testing: ["Sidecar", "script", "sidecarPath"],
};

const TYPES: { readonly [entry: string]: readonly string[] } = {
  index: [
    "Account",
    "AgentResult",
    "AnyPack",
    "AnyTurn",
    "Approval",
    "ArtifactData",
    "ArtifactEvent",
    "ArtifactLike",
    "Artifacts",
    "Beginning",
    "BlobContent",
    "BlobHead",
    "CallOptions",
    "CallResult",
    "ClientOptions",
    "Conflict",
    "ConsumeOptions",
    "Consumer",
    "Content",
    "DecideOptions",
    "Decision",
    "DiffOptions",
    "DriveOptions",
    "Driven",
    "EndEvent",
    "ErrorKind",
    "EventPlace",
    "EventsOptions",
    "Executed",
    "Fault",
    "ForkOptions",
    "Handler",
    "Handlers",
    "HistoryMessage",
    "IdOptions",
    "Json",
    "Limit",
    "Log",
    "MediaPart",
    "MessageEvent",
    "MessageLike",
    "NodeOptions",
    "OnOutput",
    "OutputPiece",
    "Pack",
    "PackName",
    "PackOptions",
    "PackTypes",
    "Part",
    "PartLike",
    "PawlErrorInit",
    "Plain",
    "ReasoningEvent",
    "Record",
    "Reply",
    "ResetEvent",
    "RoundBeganEvent",
    "RoundEndedEvent",
    "RunEvent",
    "RunFilter",
    "RunInfo",
    "RunOptions",
    "RunResult",
    "Schedule",
    "Slots",
    "StandardSchema",
    "StartOptions",
    "Step",
    "StepCall",
    "StepOptions",
    "TextEvent",
    "Tls",
    "TokenSource",
    "Tool",
    "ToolCall",
    "ToolCallEvent",
    "ToolHandler",
    "ToolOptions",
    "ToolResultEvent",
    "ToolSchemas",
    "ToolTypes",
    "Tools",
    "TransitionEvent",
    "TransitionsOptions",
    "TurnBeganEvent",
    "TurnEndedEvent",
    "TurnInfo",
    "TurnRef",
    "TurnTypes",
    "UntypedHandler",
    "Usage",
    "UsageGroup",
    "UsageOptions",
    "UsageReport",
    "Values",
    "Violation",
    "WaitEvent",
    "WorkerOptions",
    "WriteOptions",
    "Writes",
  ],
  browser: [
    "Account",
    "Approval",
    "ArtifactData",
    "ArtifactEvent",
    "Artifacts",
    "BrowserOptions",
    "CallOptions",
    "CallResult",
    "ClientOptions",
    "Conflict",
    "Content",
    "DecideOptions",
    "Decision",
    "EndEvent",
    "ErrorKind",
    "EventPlace",
    "EventsOptions",
    "GatewayOptions",
    "HistoryMessage",
    "IdOptions",
    "Json",
    "Limit",
    "MessageEvent",
    "Pack",
    "Part",
    "Plain",
    "ReasoningEvent",
    "Record",
    "ResetEvent",
    "RoundBeganEvent",
    "RoundEndedEvent",
    "RunEvent",
    "RunFilter",
    "RunInfo",
    "RunResult",
    "Schedule",
    "TextEvent",
    "ToolCallEvent",
    "ToolResultEvent",
    "TransitionEvent",
    "TransitionsOptions",
    "TurnBeganEvent",
    "TurnEndedEvent",
    "UsageGroup",
    "UsageOptions",
    "UsageReport",
    "Violation",
    "WaitEvent",
    "WriteOptions",
  ],
  ai_sdk: [
    "AgentOptions",
    "AgentPack",
    "AgentPackOptions",
    "AnyModel",
    "Bounds",
    "BoundsOptions",
    "Durable",
    "DurableAnswer",
    "Price",
  ],
  models: [
    "LanguageModel",
    "ModelAnswer",
    "ModelAsk",
    "ModelCall",
    "ModelFailure",
    "ModelHandler",
    "ModelMessage",
    "ModelOptions",
    "ModelOutcome",
    "ModelReport",
    "ModelRequest",
    "ModelRound",
    "ModelView",
    "Output",
    "ProviderLimits",
    "ToolCallRef",
    "ValueOf",
  ],
  pack: [
    "Appended",
    "ArtifactKind",
    "FromSchema",
    "JsonSchema",
    "PackDefinition",
    "PackTool",
    "StateDefinition",
    "ToolAbout",
    "TypesOf",
  ],
  testing: ["Answer", "Script", "SidecarOptions"],
};

interface Export {
  readonly name: string;
  readonly isType: boolean;
  /** Where it is declared, without ending. */
  readonly module: string;
  /** Its name there. */
  readonly original: string;
}

/** What the source of an entry point exports. */
function exportsOf(entry: string): Export[] {
  const source = text(`./${entry}.ts`);
  const found: Export[] = [];
  for (const [, type, list, module = ""] of source.matchAll(
    /^export (type )?\{([^}]*)\} from "\.\/([\w/]+)\.js";/gm,
  )) {
    for (const item of (list ?? "").split(",").map((one) => one.trim())) {
      const [, own, original = "", name] = /^(type )?(\w+)(?: as (\w+))?$/.exec(item) ?? [];
      if (original) {
        found.push({ name: name ?? original, isType: Boolean(type ?? own), module, original });
      }
    }
  }
  for (const [, kind = "", name = ""] of source.matchAll(
    /^export (?:async )?(class|function|const|interface|type) (\w+)/gm,
  )) {
    const isType = kind === "interface" || kind === "type";
    found.push({ name, isType, module: entry, original: name });
  }
  return found;
}

const sorted = (names: readonly string[]) => [...names].sort();
const entries = Object.keys(VALUES).map((entry) => [entry] as const);

describe.each(entries)("the entry point %s", (entry) => {
  const all = exportsOf(entry);

  test("exports what it says, and nothing else", async () => {
    const loaded: object = await import(`./${entry}.ts`);
    expect(sorted(Object.keys(loaded))).toEqual(sorted(VALUES[entry] ?? []));
    const types = all.filter((one) => one.isType).map((one) => one.name);
    expect(sorted(types)).toEqual(sorted(TYPES[entry] ?? []));
  });

  const own = all.filter(({ module }) => !module.startsWith("gen/"));

  test.each(own.map((one) => [one.original, one] as const))("documents %s", (name, one) => {
    const doc = docOf(text(`./${one.module}.ts`), name);
    expect(doc, "a doc comment").toBeDefined();
    if (!one.isType && name !== "DEFAULT_ADDRESS") {
      expect(doc, "an example").toMatch(/^ \* {5}\S/m);
    }
  });

  const classes = own.filter((one) => !one.isType && /^[A-Z][a-z]/.test(one.original));

  test.each(classes.map((one) => [one.original, one] as const))(
    "documents each method of %s",
    (_, one) => {
      expect(undocumented(text(`./${one.module}.ts`))).toEqual([]);
    },
  );
});

test.each([["client_base"], ["run_reader"]])("documents each method of the base %s", (module) => {
  expect(undocumented(text(`./${module}.ts`))).toEqual([]);
});

test("package.json has each entry point in both forms, with its types", () => {
  const { exports, typesVersions } = JSON.parse(text("../package.json"));
  const { ".": main, "./package.json": own, ...others } = exports;
  expect(main).toEqual({ import: "./dist/esm/index.js", require: "./dist/cjs/index.js" });
  expect(own).toBe("./package.json");
  const names = Object.keys(others).map((name) => name.slice(2));
  const files = names.map((name) => name.replace("-", "_"));
  expect(sorted([...files, "index"])).toEqual(sorted([...Object.keys(VALUES), "v1"]));
  for (const name of names) {
    const file = name.replace("-", "_");
    const form = (kind: string) => `./dist/${kind}/${file}.js`;
    expect(others[`./${name}`]).toEqual({ import: form("esm"), require: form("cjs") });
    expect(typesVersions["*"][name]).toEqual([`./dist/cjs/${file}.d.ts`]);
  }
});

/** The doc comment of a declaration. */
function docOf(source: string, name: string): string | undefined {
  const kinds = "(?:abstract |async )?(?:class|function|interface|type|const)";
  const declared = new RegExp(`(/\\*\\*(?:(?!\\*/)[\\s\\S])*\\*/)\\nexport ${kinds} ${name}\\b`);
  return declared.exec(source)?.[1];
}

/** Methods without a doc comment before them. */
function undocumented(source: string): string[] {
  const lines = source.split("\n");
  return lines.filter((line, index) => {
    const method = /^ {2}(?:static )?(?:async )?(?:get )?[a-z]\w*(?:<[^(]*>)?\(/.test(line);
    const before = lines[index - 1] ?? "";
    return method && !line.includes("constructor(") && !before.endsWith("*/");
  });
}
