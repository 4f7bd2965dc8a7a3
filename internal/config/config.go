package config

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Config is every setting of `pawl serve`. The zero value is not usable: start from [Default]. Each field has
// one name in three spellings: tls_cert in the file, PAWL_TLS_CERT in the environment, --tls-cert as a flag.
type Config struct {
	// Data is the directory in which the sidecar stores everything; created when absent. Required if Store is not
	// set.
	Data string `yaml:"data" json:"data"`

	// Store is the PostgreSQL database that contains the store, instead of a directory. The zero value
	// means that the store is in a directory. The password of the URL is never printed.
	Store dsn.URL `yaml:"store" json:"store"`
	// StorePasswordFile is a file with the password of Store. If it is "", the password is in the URL,
	// in PGPASSWORD or in PGPASSFILE.
	StorePasswordFile string `yaml:"store_password_file" json:"store_password_file"`
	// StoreSchema is the schema with the store's tables in the database. Default pawl.
	StoreSchema string `yaml:"store_schema" json:"store_schema"`
	// AcceptLossOnFailover allows a database that may lose acknowledged data when its standby takes over. By default
	// such a database is refused.
	AcceptLossOnFailover bool `yaml:"accept_loss_on_failover" json:"accept_loss_on_failover"`
	// RequireSync refuses a database that has no connected synchronous standby.
	RequireSync bool `yaml:"require_sync" json:"require_sync"`

	// PeerListen is the HOST:PORT for the other sidecars that share Store. One of the sidecars serves each
	// partition of the store, and the others forward its calls to that one. If it is "", the store is not
	// shared.
	PeerListen string `yaml:"peer_listen" json:"peer_listen"`
	// PeerAddress is the HOST:PORT at which other sidecars reach PeerListen. Default: the bound
	// address.
	PeerAddress string `yaml:"peer_address" json:"peer_address"`

	// EncryptionKeyFile holds the key that encrypts the store: 16, 24 or 32 bytes as hex or base64; "" = no
	// encryption.
	EncryptionKeyFile string `yaml:"encryption_key_file" json:"encryption_key_file"`
	// DataKeyAge is how long one data key is used for new files of an encrypted store. Default 240h.
	DataKeyAge time.Duration `yaml:"data_key_age" json:"-"`
	// Listen is HOST:PORT of the gRPC port; port 0 takes a free one.
	// Default 127.0.0.1:7291.
	Listen string `yaml:"listen" json:"listen"`
	// Socket is the path of a Unix socket with the same services as the gRPC port. If it is "", there
	// is no socket.
	Socket string `yaml:"socket" json:"socket"`
	// HTTP is HOST:PORT of the JSON gateway; "" = off.
	HTTP string `yaml:"http" json:"http"`
	// HTTPHosts are additional accepted values of the Host header. The gateway always accepts loopback
	// names. The metrics listener always accepts loopback names and addresses.
	HTTPHosts []string `yaml:"http_host" json:"http_host"`
	// HTTPOrigins are web origins (scheme://host[:port]) that may call the gateway.
	HTTPOrigins []string `yaml:"http_origin" json:"http_origin"`
	// MCP serves the agents of registered packs as MCP tools, at /mcp of the HTTP port if there is one. Default true.
	MCP bool `yaml:"mcp" json:"mcp"`
	// A2A serves the agents of registered packs over the A2A protocol: on the gRPC port, and on the HTTP port if
	// there is one. Default true.
	A2A bool `yaml:"a2a" json:"a2a"`
	// A2ARoot is the agent for A2A requests that name no agent (tenant): PACK or PACK/AGENT. If it is "", it is the
	// entry agent of the first of Packs that has agents, or else of the only registered pack that has agents.
	A2ARoot string `yaml:"a2a_root" json:"a2a_root"`
	// A2AURL is the public base URL of the HTTP port, as agent cards name it; "" =
	// the bound address.
	A2AURL string `yaml:"a2a_url" json:"a2a_url"`
	// A2AGRPC is the public HOST:PORT of the gRPC port; "" = the host of A2AURL with
	// the bound port, else the bound address.
	A2AGRPC string `yaml:"a2a_grpc" json:"a2a_grpc"`
	// A2AExecution says where the tasks of A2A callers are executed: WORKERS (by connected workers) or SIDECAR (by
	// the sidecar itself); "" = SIDECAR if the sidecar has models, else WORKERS.
	A2AExecution string `yaml:"a2a_execution" json:"a2a_execution"`
	// A2ALenientVersion treats calls without the header A2A-Version as version 1.0. Default false:
	// these calls count as version 0.3, which is refused.
	A2ALenientVersion bool `yaml:"a2a_lenient_version" json:"a2a_lenient_version"`
	// A2AStreaming serves streams over A2A, and A2APush sends push notifications. Agent cards declare which of the
	// two are on. Default true.
	A2AStreaming bool `yaml:"a2a_streaming" json:"a2a_streaming"`
	A2APush      bool `yaml:"a2a_push" json:"a2a_push"`
	// A2ARequire are extension URIs that callers must declare.
	A2ARequire []string `yaml:"a2a_require" json:"a2a_require"`
	// A2ACardKey is a PEM file with the private key that signs agent cards; "" = they
	// are not signed.
	A2ACardKey string `yaml:"a2a_card_key" json:"a2a_card_key"`
	// Agents are the addresses of the agents to which runs delegate work. A key is AGENT or PACK/AGENT, for runs of
	// another namespace than default with NAMESPACE: before it. An agent without an entry is a member of the run's
	// own pack.
	Agents map[string]Agent `yaml:"agents" json:"agents,omitempty"`
	// Agent is a list of agents in the form AGENT=CARD_URL. It has the same meaning as Agents, for
	// agents that need no credentials.
	Agent []string `yaml:"agent" json:"agent"`
	// MCPServers are the MCP servers whose tools runs may call, by the names that packs use for them.
	MCPServers map[string]MCPServer `yaml:"mcp_servers" json:"mcp_servers,omitempty"`
	// PushAllow are private, loopback or link-local addresses to which push notifications and webhooks may be sent:
	// networks (CIDR) or single addresses. Other addresses of these kinds are refused.
	PushAllow []string `yaml:"push_allow" json:"push_allow"`
	// Packs are pack files that are registered at the start, before the sidecar reports ready.
	Packs []string `yaml:"pack" json:"pack"`
	// Namespaces are the namespaces that are served in addition to "default". The data of a namespace
	// does not depend on the order of the list, and is kept while the namespace is not in the list.
	Namespaces []string `yaml:"namespace" json:"namespace"`
	// Strict is the version of the published pack schema, 1.4.0 to 1.9.0, that packs must follow exactly. It applies
	// if the caller that registers a pack names no version. If it is "", a pack may use the fields of all versions.
	Strict string `yaml:"strict" json:"strict"`
	// UsageLabels are the keys of labels by which the usage of runs is rolled up, at most 4; the pack, the state, the model and
	// the tool always are. Default none. A change counts for usage that is settled afterwards.
	UsageLabels []string `yaml:"usage_label" json:"usage_label"`
	// RequireBounded refuses a pack with a loop of states if the pack sets no bound for the loop.
	RequireBounded bool `yaml:"require_bounded" json:"require_bounded"`
	// AllowTools are the tools that may be called; "*" is every tool. Default none: an empty list allows no
	// tool.
	AllowTools []string `yaml:"allow_tool" json:"allow_tool"`

	// Models are the models that the sidecar itself calls in runs with the execution SIDECAR, each
	// NAME=BASE_URL[#MODEL]. The prefix "anthropic+" before the URL selects Anthropic's form of requests,
	// "responses+" selects OpenAI's Responses. ModelKeys are files with the keys of models, NAME=FILE. A key can also
	// be in the environment, PAWL_MODEL_KEY_NAME. Default none: the sidecar then executes no runs itself.
	Models    []string `yaml:"model" json:"model"`
	ModelKeys []string `yaml:"model_key" json:"model_key"`
	// ModelsFile is a file with further models, NAME: BASE_URL[#MODEL] or NAME: {url, key_file}; "" =
	// none. This file and all files of keys are read again at SIGHUP.
	ModelsFile string `yaml:"models" json:"models"`
	// Providers assigns a model to each provider key of packs (requires.providers), in the form KEY: MODEL. MODEL is
	// a name from Models or ModelsFile. A prompt that names the key uses that model in runs that the sidecar
	// executes. Default none: the key "default" then means the first of the prompt's model_overrides, else the first
	// model.
	Providers map[string]string `yaml:"providers" json:"providers,omitempty"`
	// Provider is a list of bindings of provider keys in the form KEY=MODEL. It takes precedence over
	// Providers.
	Provider []string `yaml:"provider" json:"provider"`
	// ModelTimeout bounds one model call. Default 5m.
	ModelTimeout time.Duration `yaml:"model_timeout" json:"-"`

	// InsecureBind allows an address other than loopback without authentication of callers.
	InsecureBind bool `yaml:"insecure_bind" json:"insecure_bind"`
	// TLSCert and TLSKey are PEM files with the certificate and the private key. Either both are set or
	// none is.
	TLSCert string `yaml:"tls_cert" json:"tls_cert"`
	TLSKey  string `yaml:"tls_key" json:"tls_key"`
	// TLSClientCA is a PEM file; if set, callers must have a certificate signed by it.
	TLSClientCA string `yaml:"tls_client_ca" json:"tls_client_ca"`
	// CertificatesFile lists names of client certificates with their scopes. A certificate that is not
	// in the file has no scopes. "" = no certificate has scopes.
	CertificatesFile string `yaml:"certificates_file" json:"certificates_file"`
	// TokensFile lists digests of bearer tokens with their principals and scopes. If TokensFile,
	// OIDCFile and TLSClientCA are all empty, callers are not authenticated.
	TokensFile string `yaml:"tokens_file" json:"tokens_file"`
	// OIDCFile lists the issuers of accepted JSON web tokens, and the scopes that they give; "" = none.
	OIDCFile string `yaml:"oidc_file" json:"oidc_file"`

	// LinkURL is the public base URL of the HTTP port in decision links, with which a person approves or denies a
	// tool call; "" = there are no such links.
	LinkURL string `yaml:"link_url" json:"link_url"`
	// LinkKeysFile is a file with the keys that sign decision links, one in each line: 32 bytes or more as hex or
	// base64. The first key signs new links, and every key verifies links. The file is read again at SIGHUP.
	LinkKeysFile string `yaml:"link_keys_file" json:"link_keys_file"`
	// LinkExpiry is how long a decision link is valid; 0 = no time limit. Default 24h.
	LinkExpiry time.Duration `yaml:"link_expiry" json:"-"`

	// QuotasFile has the quotas of namespaces and principals; "" = no quotas. It is read again at SIGHUP.
	QuotasFile string `yaml:"quotas_file" json:"quotas_file"`

	// Prices is a file with the prices of models for packs that set no price (x_pawl.prices); "" = none. It is read
	// again at SIGHUP.
	Prices string `yaml:"prices" json:"prices"`
	// CallLimits is a file with rate limits for model and tool calls: how many calls of a group may run at once and
	// per minute. "" = no limits. The file is read again at SIGHUP.
	CallLimits string `yaml:"call_limits" json:"call_limits"`

	// Budgets is a file of accounts: what all runs with a label may together reserve and spend per day, per month or
	// in total; "" = none. It is read again at SIGHUP.
	Budgets string `yaml:"budgets" json:"budgets"`

	// Schedules is a file of schedules that start runs; "" = none. It is read again at SIGHUP.
	Schedules string `yaml:"schedules" json:"schedules"`

	// Audit is a directory for the audit log, which has a line for each call that changes data or is refused;
	// created when absent. "" = none.
	Audit string `yaml:"audit" json:"audit"`
	// AuditKey is a file with the key of the hashes that chain the lines of the audit log; "" = hashes without a key.
	AuditKey string `yaml:"audit_key" json:"audit_key"`
	// AuditBytes is the size at which a file of the audit log is full and the next one begins. Default 64MiB.
	AuditBytes Bytes `yaml:"audit_bytes" json:"audit_bytes"`

	// Metrics is HOST:PORT of a listener that serves metrics for Prometheus at /metrics, under the same rules
	// as Listen; "" = none.
	Metrics string `yaml:"metrics" json:"metrics"`
	// OTLPEndpoint is the URL of a collector that takes OpenTelemetry traces and metrics by OTLP over gRPC;
	// "" = none are sent.
	OTLPEndpoint string `yaml:"otlp_endpoint" json:"otlp_endpoint"`
	// TraceSample is the share of runs that begin a trace, 0 to 1. A run whose start request has a trace context
	// belongs to the caller's trace, and the caller decides whether it is sampled. Default 0.1.
	TraceSample float64 `yaml:"trace_sample" json:"trace_sample"`

	// Channelz serves gRPC's channelz service to principals with the scope admin.
	Channelz bool `yaml:"channelz" json:"channelz"`

	// DrainTimeout bounds how long calls in flight may finish after SIGTERM. Default 20s.
	DrainTimeout time.Duration `yaml:"drain_timeout" json:"-"`
	// WallTime is the longest time between start and end of a run if neither its pack nor its start request sets one;
	// 0 = no bound. Default 0.
	WallTime time.Duration `yaml:"wall_time" json:"-"`
	// MaxWallTime is the longest time between start and end of any run, even if its pack allows more; 0 = no bound.
	// Default 0.
	MaxWallTime time.Duration `yaml:"max_wall_time" json:"-"`
	// Lease is how long a worker holds a turn without a heartbeat, if the pack does not set it
	// (x_pawl.lease_sec). Default 1m.
	Lease time.Duration `yaml:"lease" json:"-"`
	// StepGrace is how long a step waits for its worker to reconnect after the connection was lost. Default 5s.
	StepGrace time.Duration `yaml:"step_grace" json:"-"`
	// RestartGrace is how long, after the sidecar's start, a step waits for the worker that had it before the
	// restart. Default 20s.
	RestartGrace time.Duration `yaml:"restart_grace" json:"-"`
	// BlobGrace is how long a blob is kept after its last upload although no run refers to it. An unfinished upload
	// is kept for the same time. Default 24h.
	BlobGrace time.Duration `yaml:"blob_grace" json:"-"`
	// Retention are the rules by which ended runs are deleted. Retain has further rules as texts, for
	// example "older_than=720h status=COMPLETED archive=DIR". Default none: all runs are kept for ever.
	Retention []Retention `yaml:"retention" json:"retention,omitempty"`
	Retain    []string    `yaml:"retain" json:"retain"`
	// RetentionEvery is the pause between two rounds in which the retention rules are applied. Default 10m.
	RetentionEvery time.Duration `yaml:"retention_every" json:"-"`
	// RetentionGrace is how long every run is kept after its end, even if a rule selects it. A run that another
	// sidecar requested is kept for at least a day. Default 1h.
	RetentionGrace time.Duration `yaml:"retention_grace" json:"-"`
	// RetentionPreview only reports what the rules would delete.
	RetentionPreview bool `yaml:"retention_preview" json:"retention_preview"`
	// DeletedRunRetention is how long the store remembers that a run was deleted. During this time the id that
	// started it cannot start another run; 0 = for ever. Default 0.
	DeletedRunRetention time.Duration `yaml:"retention_deleted" json:"-"`
	// ConsumerRetention is how long the position of a named consumer is kept while it does not read; 0 = for
	// ever. Default 0.
	ConsumerRetention time.Duration `yaml:"retention_consumers" json:"-"`
	// DeadLetterRetention is how long dead letters (deliveries to webhooks that failed finally) are kept; 0 = for
	// ever. Default 0.
	DeadLetterRetention time.Duration `yaml:"retention_dead_letters" json:"-"`
	// LogLevel is debug, info, warn or error. Default info.
	LogLevel string `yaml:"log_level" json:"log_level"`
	// LogFormat is text or json. Default text.
	LogFormat string `yaml:"log_format" json:"log_format"`

	Limits Limits `yaml:"limits" json:"limits"`

	// Ignored are variables of the environment with the prefix PAWL_ that the sidecar does not read. It warns of them.
	Ignored []string `yaml:"-" json:"-"`

	// origins are set by [Load], for [Config.origin].
	origins map[string]string
}

// Limits are the limits that the operator sets. An error about a limit contains its value.
type Limits struct {
	// PackBytes bounds a pack document. Default 1MiB.
	PackBytes Bytes `yaml:"pack_bytes" json:"pack_bytes"`
	// MessageBytes bounds one gRPC message. Default 4MiB.
	MessageBytes Bytes `yaml:"message_bytes" json:"message_bytes"`
	// ArtifactBytes bounds one written artifact value. Default 64KiB.
	ArtifactBytes Bytes `yaml:"artifact_bytes" json:"artifact_bytes"`
	// RunArtifactBytes bounds all artifacts of a run together. Default 1MiB.
	RunArtifactBytes Bytes `yaml:"run_artifact_bytes" json:"run_artifact_bytes"`
	// ConversationBytes bounds the messages of a run. Default 4MiB.
	ConversationBytes Bytes `yaml:"conversation_bytes" json:"conversation_bytes"`
	// VariablesBytes bounds the variables of a run, in bytes of JSON. Default 256KiB.
	VariablesBytes Bytes `yaml:"variables_bytes" json:"variables_bytes"`
	// CacheBytes bounds the memory for the states of runs that are cached. Default 64MiB.
	CacheBytes Bytes `yaml:"cache_bytes" json:"cache_bytes"`
	// WatchBytes bounds the records in memory that streams have not sent yet, of all streams together. One record of
	// each stream is not counted. Default 64MiB.
	WatchBytes Bytes `yaml:"watch_bytes" json:"watch_bytes"`
	// BlobBytes bounds one blob. Default 64MiB.
	BlobBytes Bytes `yaml:"blob_bytes" json:"blob_bytes"`
	// Workers bounds the connected workers of a namespace. Default 10000.
	Workers int `yaml:"workers" json:"workers"`
	// WorkerTurns and WorkerSteps bound the turns and steps that one worker executes at once. A worker that offers
	// more gets only this number. Default 256 each.
	WorkerTurns int `yaml:"worker_turns" json:"worker_turns"`
	WorkerSteps int `yaml:"worker_steps" json:"worker_steps"`
	// Streams bounds the streams and waiting calls that are open at once. Default 20000.
	Streams int `yaml:"streams" json:"streams"`
	// Labels bounds the labels of a run. Default 64.
	Labels int `yaml:"labels" json:"labels"`
	// RunsInFlight bounds the runs that have not ended. Default 1000000.
	RunsInFlight int `yaml:"runs_in_flight" json:"runs_in_flight"`
	// Inputs bounds the inputs that are being processed at once, over all runs. At this number, an input that
	// requests new work is rejected. Default 1024.
	Inputs int `yaml:"inputs" json:"inputs"`
	// QueuedInputs bounds the inputs of one run that wait for its next turn. Default 16.
	QueuedInputs int `yaml:"queued_inputs" json:"queued_inputs"`
	// RunQueue bounds the calls that wait for one run. Default 256.
	RunQueue int `yaml:"run_queue" json:"run_queue"`
	// MaxTransitions ends a run that makes more transitions. Default 10000.
	MaxTransitions int `yaml:"max_transitions" json:"max_transitions"`
	// DeadLetters bounds the dead letters (deliveries that failed finally) of a namespace; the oldest are removed. 0
	// = only the bound of each subscription applies. Default 0.
	DeadLetters int `yaml:"dead_letters" json:"dead_letters"`
	// RequestsPerSecond bounds the calls of one principal in a second; 0 = no bound. Default 0.
	RequestsPerSecond int `yaml:"requests_per_second" json:"requests_per_second"`
}

const (
	defaultDataKeyAge = 10 * 24 * time.Hour
	defaultSchema     = "pawl"
)

// Default returns the default configuration. It is complete except for Data or Store, one of which must
// be set.
func Default() Config {
	return Config{
		Listen:      "127.0.0.1:7291",
		StoreSchema: defaultSchema,
		MCP:         true,
		A2A:         true, A2AStreaming: true, A2APush: true,
		DataKeyAge:   defaultDataKeyAge,
		DrainTimeout: 20 * time.Second,
		Lease:        time.Minute,
		StepGrace:    5 * time.Second,
		RestartGrace: 20 * time.Second,
		BlobGrace:    24 * time.Hour,
		LinkExpiry:   24 * time.Hour,
		ModelTimeout: 5 * time.Minute,
		TraceSample:  0.1,

		RetentionEvery: 10 * time.Minute, RetentionGrace: time.Hour,

		AuditBytes: 64 << 20,
		LogLevel:   "info",
		LogFormat:  "text",
		Limits:     defaultLimits(),
	}
}

// defaultLimits returns the limits that apply unless the operator sets others.
func defaultLimits() Limits {
	return Limits{
		PackBytes:         1 << 20,
		MessageBytes:      4 << 20,
		ArtifactBytes:     64 << 10,
		RunArtifactBytes:  1 << 20,
		ConversationBytes: 4 << 20,
		VariablesBytes:    256 << 10,
		CacheBytes:        64 << 20,
		WatchBytes:        64 << 20,
		BlobBytes:         64 << 20,
		Workers:           10_000,
		WorkerTurns:       256,
		WorkerSteps:       256,
		Streams:           20_000,
		Labels:            64,
		QueuedInputs:      16,
		RunsInFlight:      1_000_000,
		Inputs:            1024,
		RunQueue:          256,
		MaxTransitions:    10_000,
	}
}

// MarshalJSON writes durations as text, as in the file.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config
	return json.Marshal(struct {
		plain
		DataKeyAge           string `json:"data_key_age"`
		DrainTimeout         string `json:"drain_timeout"`
		WallTime             string `json:"wall_time"`
		MaxWallTime          string `json:"max_wall_time"`
		Lease                string `json:"lease"`
		StepGrace            string `json:"step_grace"`
		RestartGrace         string `json:"restart_grace"`
		BlobGrace            string `json:"blob_grace"`
		LinkExpiry           string `json:"link_expiry"`
		ModelTimeout         string `json:"model_timeout"`
		RetentionEvery       string `json:"retention_every"`
		RetentionGrace       string `json:"retention_grace"`
		ForgetDeletedAfter   string `json:"retention_deleted"`
		ForgetConsumersAfter string `json:"retention_consumers"`
		ForgetLettersAfter   string `json:"retention_dead_letters"`
	}{
		plain(c), c.DataKeyAge.String(), c.DrainTimeout.String(), c.WallTime.String(), c.MaxWallTime.String(), c.Lease.String(), c.StepGrace.String(),
		c.RestartGrace.String(), c.BlobGrace.String(), c.LinkExpiry.String(), c.ModelTimeout.String(), c.RetentionEvery.String(), c.RetentionGrace.String(), c.DeletedRunRetention.String(), c.ConsumerRetention.String(),
		c.DeadLetterRetention.String(),
	})
}

// Secured reports whether callers are authenticated, which is required for an address other than loopback.
// Encryption of the connection alone is not enough.
func (c *Config) Secured() bool { return c.TokensFile != "" || c.OIDCFile != "" || c.TLSClientCA != "" }
