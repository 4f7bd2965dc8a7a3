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
}

// everyScope admits whoever has any right at all.
const everyScope = AllScopes &^ Admin

// Operations is the one table of who may ask for what. The proto comments and
// docs/api.md repeat it; tests hold them against it.
var Operations = []Operation{
	{Name: "/pawl.v1.PackService/ValidatePack", Scopes: PacksWrite | RunsRead},
	{Name: "/pawl.v1.PackService/RegisterPack", Scopes: PacksWrite},
	{Name: "/pawl.v1.PackService/GetPack", Scopes: RunsRead | RunsWrite | PacksWrite},
	{Name: "/pawl.v1.PackService/ListPacks", Scopes: RunsRead | RunsWrite | PacksWrite},
	{Name: "/pawl.v1.PackService/GetPackGraph", Scopes: RunsRead | RunsWrite | PacksWrite},

	{Name: "/pawl.v1.RunService/StartRun", Scopes: RunsWrite},
	{Name: "/pawl.v1.RunService/ForkRun", Scopes: RunsWrite},
	{Name: "/pawl.v1.RunService/GetRun", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/DiffRuns", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/VerifyRun", Scopes: RunsRead | RunsWrite},
	// The file has all blobs of the run, which GetBlob does not give to RunsWrite.
	{Name: "/pawl.v1.RunService/ExportRun", Scopes: RunsRead},
	{Name: "/pawl.v1.RunService/ImportRun", Scopes: PacksWrite},
	{Name: "/pawl.v1.RunService/EmitEvent", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/SendInput", Scopes: RunsWrite},
	{Name: "/pawl.v1.RunService/GetTurn", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/ShowTurn", Scopes: RunsRead},
	{Name: "/pawl.v1.RunService/SetArtifacts", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/CompleteTurn", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/FailTurn", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/WriteOutput", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/SuspendTurn", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/RequestStep", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/ResolveStep", Scopes: RunsWrite},
	{Name: "/pawl.v1.RunService/StreamTransitions", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/ListTransitions", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/ListRuns", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/CountRuns", Scopes: RunsRead},
	{Name: "/pawl.v1.RunService/GetCaller"},
	{Name: "/pawl.v1.RunService/WaitRun", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.RunService/PauseRun", Scopes: RunsWrite},
	{Name: "/pawl.v1.RunService/ResumeRun", Scopes: RunsWrite},
	{Name: "/pawl.v1.RunService/CancelRun", Scopes: RunsWrite},
	// Each command is held against the row of its own RPC besides.
	{Name: "/pawl.v1.RunService/Drive", Scopes: RunsWrite | EventsExternal},
	{Name: "/pawl.v1.RunService/PutBlob", Scopes: RunsWrite | Work},
	{Name: "/pawl.v1.RunService/GetBlob", Scopes: RunsRead | Work},

	{Name: "/pawl.v1.WorkerService/Work", Scopes: Work},
	{Name: "/pawl.v1.WorkerService/ListWorkers", Scopes: RunsRead},

	{Name: "/pawl.v1.DeliveryService/ListConsumers", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/AckConsumer", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/DeleteConsumer", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/PutWebhook", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/GetWebhook", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/ListWebhooks", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/DeleteWebhook", Scopes: RunsRead},
	{Name: "/pawl.v1.DeliveryService/ListDeliveries", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.DeliveryService/ListDeadLetters", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.DeliveryService/ResendDeadLetter", Scopes: RunsRead | RunsWrite},
	{Name: "/pawl.v1.DeliveryService/DiscardDeadLetter", Scopes: RunsRead | RunsWrite},

	{Name: "/lf.a2a.v1.A2AService/SendMessage", Scopes: RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/SendStreamingMessage", Scopes: RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/GetTask", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/ListTasks", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/CancelTask", Scopes: RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/SubscribeToTask", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/CreateTaskPushNotificationConfig", Scopes: RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/GetTaskPushNotificationConfig", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/ListTaskPushNotificationConfigs", Scopes: RunsRead | RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/DeleteTaskPushNotificationConfig", Scopes: RunsWrite},
	{Name: "/lf.a2a.v1.A2AService/GetExtendedAgentCard", Scopes: RunsRead | RunsWrite},

	{Name: "GET /metrics", Scopes: RunsRead},

	{Name: "/grpc.health.v1.Health/Check", Public: true},
	{Name: "/grpc.health.v1.Health/List", Public: true},
	{Name: "/grpc.health.v1.Health/Watch", Public: true},
	{Name: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Scopes: everyScope},
	{Name: "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Scopes: everyScope},
	{Name: "/grpc.channelz.v1.Channelz/GetTopChannels", Scopes: Admin},
	{Name: "/grpc.channelz.v1.Channelz/GetServers", Scopes: Admin},
	{Name: "/grpc.channelz.v1.Channelz/GetServer", Scopes: Admin},
	{Name: "/grpc.channelz.v1.Channelz/GetServerSockets", Scopes: Admin},
	{Name: "/grpc.channelz.v1.Channelz/GetChannel", Scopes: Admin},
	{Name: "/grpc.channelz.v1.Channelz/GetSubchannel", Scopes: Admin},
	{Name: "/grpc.channelz.v1.Channelz/GetSocket", Scopes: Admin},
}
