package policy

// Operation is one thing that a caller can ask for, over whatever binding.
type Operation struct {
	// Name is the full name of the gRPC method, or "METHOD /path" of what is served
	// over HTTP alone. JSON over HTTP and the HTTP bindings of A2A are the gRPC method.
	Name string
	// Scopes admit to it, each by itself; Admin always does. None: every caller who is
	// known may ask. Whether a scope is enough for this run, state and turn is decided
	// by [Decide].
	Scopes Scopes
	// Public needs no caller: a probe has no token.
	Public bool
	// KeepsScopes: a stream of it ends when its principal loses any of its scopes that it had.
	KeepsScopes bool
	// Changes: what it does stays. The audit has a line of each such call; of all others of
	// those that were refused.
	Changes bool
	// Space says of which namespace it is, for callers that are kept to some.
	Space Space
}

// Space is of which namespace an operation is.
type Space uint8

const (
	// SpaceNamed: of the one that its request names, else the caller's first.
	SpaceNamed Space = iota
	// SpaceAll: of all of them together, so that who is kept to some may not ask.
	SpaceAll
	// SpaceNone: it tells nothing that is of a namespace.
	SpaceNone
)

// everyScope admits whoever has any right at all.
const everyScope = AllScopes &^ Admin

// Operations is the one table of who may ask for what. The proto comments and
// docs/reference/scopes.md repeat it; tests hold them against it.
var Operations = []Operation{
	{Name: "/pawl.v1.PackService/ValidatePack", Scopes: PacksWrite | RunsRead},
	{Name: "/pawl.v1.PackService/RegisterPack", Scopes: PacksWrite, Changes: true},
	{Name: "/pawl.v1.PackService/GetPack", Scopes: RunsRead | RunsWrite | PacksWrite},
	{Name: "/pawl.v1.PackService/ListPacks", Scopes: RunsRead | RunsWrite | PacksWrite},
	{Name: "/pawl.v1.PackService/GetPackGraph", Scopes: RunsRead | RunsWrite | PacksWrite},

	{Name: "/pawl.v1.RunService/StartRun", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.RunService/ForkRun", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.RunService/GetRun", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/DiffRuns", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/VerifyRun", Scopes: RunsRead | RunsWrite},
	// The file has all blobs of the run, which GetBlob does not give to RunsWrite.
	{Name: "/pawl.v1.RunService/ExportRun", Scopes: RunsRead},
	{Name: "/pawl.v1.RunService/ImportRun", Scopes: PacksWrite, Changes: true},
	{Name: "/pawl.v1.RunService/EmitEvent", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/SendInput", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.RunService/GetTurn", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/ShowTurn", Scopes: RunsRead},
	{Name: "/pawl.v1.RunService/SetArtifacts", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/CompleteTurn", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/FailTurn", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/WriteOutput", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/SuspendTurn", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/RequestStep", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/ResolveStep", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.RunService/RequestModel", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/AnswerModel", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/UpdateModelCall", Scopes: RunsWrite | EventsExternal, Changes: true},
	{Name: "/pawl.v1.RunService/GetModelStep", Scopes: RunsRead},
	{Name: "/pawl.v1.RunService/StreamTransitions", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/ListTransitions", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/ListRuns", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/CountRuns", Scopes: RunsRead},
	{Name: "/pawl.v1.RunService/GetCaller"},
	{Name: "/pawl.v1.RunService/WaitRun", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/PauseRun", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.ControlService/SteerRun", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.ControlService/StopRun", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.RunService/ResumeRun", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.RunService/CancelRun", Scopes: RunsWrite, Changes: true},
	{Name: "/pawl.v1.RunService/DeleteRun", Scopes: RunsDelete, Changes: true},
	{Name: "/pawl.v1.RunService/EraseRun", Scopes: RunsErase, Changes: true},
	// Each command is held against the row of its own RPC besides.
	{Name: "/pawl.v1.RunService/PutBlob", Scopes: RunsWrite | Work, Changes: true},
	{Name: "/pawl.v1.RunService/GetBlob", Scopes: RunsRead | Work},

	{Name: "/pawl.v1.ControlService/DecideStep", Scopes: StepsApprove, Changes: true},
	{Name: "/pawl.v1.ControlService/ListApprovals", Scopes: RunsRead | RunsWrite | StepsApprove},
	{Name: "/pawl.v1.ControlService/RaiseBudget", Scopes: BudgetsWrite, Changes: true},
	{Name: "/pawl.v1.ControlService/ListBudgets", Scopes: RunsRead},

	// A worker that offers work needs Work, one that serves runs RunsWrite: the room looks.
	{Name: "/pawl.v1.WorkerService/Work", Scopes: Work | RunsWrite, KeepsScopes: true, Changes: true},
	{Name: "/pawl.v1.WorkerService/ListWorkers", Scopes: RunsRead},

	{Name: "/pawl.v1.ControlService/ListSchedules", Scopes: RunsRead},

	{Name: "/pawl.v1.DeliveryService/ListConsumers", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/AckConsumer", Scopes: RunsRead, Changes: true},
	{Name: "/pawl.v1.DeliveryService/DeleteConsumer", Scopes: RunsRead, Changes: true},
	{Name: "/pawl.v1.DeliveryService/PutWebhook", Scopes: RunsRead, Changes: true},
	{Name: "/pawl.v1.DeliveryService/GetWebhook", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/ListWebhooks", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/DeleteWebhook", Scopes: RunsRead, Changes: true},
	{Name: "/pawl.v1.DeliveryService/ListDeliveries", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.DeliveryService/ListDeadLetters", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.DeliveryService/ResendDeadLetter", Scopes: RunsRead | RunsWrite, Changes: true},
	{Name: "/pawl.v1.DeliveryService/DiscardDeadLetter", Scopes: RunsRead | RunsWrite, Changes: true},

	{Name: "/pawl.v1.ControlService/ListLimits", Scopes: StoreRead, Space: SpaceAll},

	// It stays known that a backup was made; and who took everything has a line.
	{Name: "/pawl.v1.StoreService/Backup", Scopes: StoreRead, Changes: true, Space: SpaceAll},
	{Name: "/pawl.v1.StoreService/CheckStore", Scopes: StoreRead, Space: SpaceAll},
	{Name: "/pawl.v1.StoreService/GetStoreStats", Scopes: StoreRead, Space: SpaceAll},
	{Name: "/pawl.v1.StoreService/ListPartitions", Scopes: StoreRead, Space: SpaceAll},

	{Name: "/lf.a2a.v1.A2AService/SendMessage", Scopes: RunsWrite, Changes: true},
	{Name: "/lf.a2a.v1.A2AService/SendStreamingMessage", Scopes: RunsWrite, Changes: true},
	{Name: "/lf.a2a.v1.A2AService/GetTask", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/ListTasks", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/CancelTask", Scopes: RunsWrite, Changes: true},
	{Name: "/lf.a2a.v1.A2AService/SubscribeToTask", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/CreateTaskPushNotificationConfig", Scopes: RunsWrite, Changes: true},
	{Name: "/lf.a2a.v1.A2AService/GetTaskPushNotificationConfig", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/ListTaskPushNotificationConfigs", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/DeleteTaskPushNotificationConfig", Scopes: RunsWrite, Changes: true},
	{Name: "/lf.a2a.v1.A2AService/GetExtendedAgentCard", Scopes: RunsRead | RunsWrite},

	{Name: "GET /metrics", Scopes: RunsRead, Space: SpaceAll},
	// The page is files; what it shows it asks for with its visitor's token. Cards are
	// how agents are found, and tell of the default namespace which it has; those of others
	// are told to who may be in them.
	{Name: "GET /", Public: true, Space: SpaceNone},
	{Name: "GET /ui", Public: true, Space: SpaceNone},
	{Name: "GET /openapi.json", Public: true, Space: SpaceNone},
	{Name: "GET /healthz", Public: true, Space: SpaceNone},
	{Name: "GET /.well-known/agent-card.json", Public: true, Space: SpaceNone},
	{Name: "GET /a2a/PACK/AGENT/.well-known/agent-card.json", Public: true, Space: SpaceNone},
	{Name: "GET /a2a/NAMESPACE:PACK/AGENT/.well-known/agent-card.json", Scopes: RunsRead | RunsWrite},

	{Name: "/grpc.health.v1.Health/Check", Public: true, Space: SpaceNone},
	{Name: "/grpc.health.v1.Health/List", Public: true, Space: SpaceNone},
	{Name: "/grpc.health.v1.Health/Watch", Public: true, Space: SpaceNone},
	{Name: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Scopes: everyScope, Space: SpaceNone},
	{Name: "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Scopes: everyScope, Space: SpaceNone},
	{Name: "/grpc.channelz.v1.Channelz/GetTopChannels", Scopes: Admin, Space: SpaceAll},
	{Name: "/grpc.channelz.v1.Channelz/GetServers", Scopes: Admin, Space: SpaceAll},
	{Name: "/grpc.channelz.v1.Channelz/GetServer", Scopes: Admin, Space: SpaceAll},
	{Name: "/grpc.channelz.v1.Channelz/GetServerSockets", Scopes: Admin, Space: SpaceAll},
	{Name: "/grpc.channelz.v1.Channelz/GetChannel", Scopes: Admin, Space: SpaceAll},
	{Name: "/grpc.channelz.v1.Channelz/GetSubchannel", Scopes: Admin, Space: SpaceAll},
	{Name: "/grpc.channelz.v1.Channelz/GetSocket", Scopes: Admin, Space: SpaceAll},
}
