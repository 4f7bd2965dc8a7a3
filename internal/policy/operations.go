package policy

// Operation is one operation that a caller can request, by any protocol.
type Operation struct {
	// Name is the full name of the gRPC method. For operations that exist only over HTTP it is "METHOD /path". JSON over HTTP and the HTTP
	// bindings of A2A use the name of the gRPC method.
	Name string
	// Scopes are the scopes that allow the operation. A principal needs one of them. The scope admin always allows
	// it. If the set is empty, every authenticated caller may request the operation. For an operation on a run,
	// [Decide] also checks the state and the turn.
	Scopes Scopes
	// Public reports whether the operation needs no authentication. For example, probes have no token.
	Public bool
	// KeepsScopes means that an open stream of the operation ends when its principal loses one of the scopes that it
	// had at the start.
	KeepsScopes bool
	// Changes means that the operation changes stored data. The audit log has a line for each call of such an
	// operation. For other operations it has lines only for refused calls.
	Changes bool
	// Space selects the namespace of the operation. It is used for callers that are limited to some namespaces.
	Space Space
}

// Space is how the namespace of an operation is found.
type Space uint8

const (
	// SpaceNamed means the namespace that the request names, else the caller's first namespace.
	SpaceNamed Space = iota
	// SpaceAll means all namespaces together. A caller that is limited to some namespaces may not request the operation.
	SpaceAll
	// SpaceNone means that the answer contains no data of a namespace, or only public data of the default namespace.
	SpaceNone
)

// everyScope is the set of all scopes except Admin. It allows every caller that has any scope.
const everyScope = AllScopes &^ Admin

// Operations is the table of the scopes for each operation. It is the only source: the proto comments and docs/reference/scopes.md repeat
// it, and tests compare them with it.
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
	// ExportRun needs RunsRead, and not RunsWrite, because it returns all blobs of the run. RunsWrite does not allow
	// GetBlob.
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
	{Name: "/pawl.v1.RunService/PutBlob", Scopes: RunsWrite | Work, Changes: true},
	{Name: "/pawl.v1.RunService/GetBlob", Scopes: RunsRead | Work},

	{Name: "/pawl.v1.ControlService/DecideStep", Scopes: StepsApprove, Changes: true},
	{Name: "/pawl.v1.ControlService/ListApprovals", Scopes: RunsRead | RunsWrite | StepsApprove},
	{Name: "/pawl.v1.ControlService/ListDecisions", Scopes: RunsRead | RunsWrite | StepsApprove},
	{Name: "/pawl.v1.ControlService/RaiseBudget", Scopes: BudgetsWrite, Changes: true},
	{Name: "/pawl.v1.ControlService/ListBudgets", Scopes: RunsRead},
	{Name: "/pawl.v1.ControlService/QueryUsage", Scopes: RunsRead | RunsWrite},

	// A worker that offers work needs Work, and a worker that serves runs needs RunsWrite. The service checks this.
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

	// The audit log records that a backup was made, and which principal received the whole store.
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
	// The web page consists of files and needs no token. It requests all data with the token of its visitor. The
	// agent cards of the default namespace, if it is served, are public, so that agents can be found. Cards of other
	// namespaces are only for callers with access to them.
	{Name: "GET /", Public: true, Space: SpaceNone},
	{Name: "GET /ui", Public: true, Space: SpaceNone},
	{Name: "GET /openapi.json", Public: true, Space: SpaceNone},
	{Name: "GET /healthz", Public: true, Space: SpaceNone},
	{Name: "GET /readyz", Public: true, Space: SpaceNone},
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
