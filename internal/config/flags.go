package config

import (
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/pack"
)

// Flags adds a flag for every setting to fs, except for the maps and lists that only the file can contain, and --config
// for the path of the configuration file. The values of [Default] become the defaults of the flags. [Load] reads the
// flags and reports the values that they refuse.
func Flags(fs *pflag.FlagSet) {
	fs.String("config", "", "YAML file with settings (environment and flags overrule it)")
	c := Default()
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	bind(settings, &c)
	acceptAll(settings)
	fs.AddFlagSet(settings)
}

// bind adds the flags of the settings to fs. A flag stores its value in c, and its default is the value that c has now.
func bind(fs *pflag.FlagSet, c *Config) {
	fs.StringVar(&c.Data, "data", c.Data, "directory of the store (required without --store)")
	bindStore(fs, c)
	fs.StringVar(&c.EncryptionKeyFile, "encryption-key-file", c.EncryptionKeyFile, "file of the key under which the store is encrypted: 16, 24 or 32 bytes, hex or base64")
	fs.DurationVar(&c.DataKeyAge, "data-key-age", c.DataKeyAge, "how long one data key of an encrypted store is used for new files")
	fs.StringVar(&c.Listen, "listen", c.Listen, "HOST:PORT of the gRPC port; port 0 selects a free port")
	fs.StringVar(&c.Socket, "socket", c.Socket, "path of a Unix socket that serves the same")
	fs.StringVar(&c.HTTP, "http", c.HTTP, "HOST:PORT of the JSON gateway (off by default)")
	fs.StringArrayVar(&c.HTTPHosts, "http-host", c.HTTPHosts, "Host header that the gateway and the metrics accept besides loopback names (repeatable)")
	fs.StringArrayVar(&c.HTTPOrigins, "http-origin", c.HTTPOrigins, "web origin that may call the gateway (repeatable)")
	bindA2A(fs, c)
	fs.StringArrayVar(&c.Agent, "agent", c.Agent, "remote agent that runs delegate to: AGENT=CARD_URL (repeatable)")
	fs.StringArrayVar(&c.PushAllow, "push-allow", c.PushAllow, "private address or CIDR that push notifications and webhooks may go to (repeatable)")
	fs.StringArrayVar(&c.Packs, "pack", c.Packs, "pack file to register before serving (repeatable)")
	fs.StringArrayVar(&c.Namespaces, "namespace", c.Namespaces, "namespace to serve besides default (repeatable)")
	fs.StringVar(&c.Strict, "strict", c.Strict, "published version of the PromptPack format to validate packs against: 1.4.0 to 1.9.0; without a value: 1.9.0")
	fs.Lookup("strict").NoOptDefVal = pack.Newest
	fs.StringArrayVar(&c.UsageLabels, "usage-label", c.UsageLabels, "key of a label by which usage is rolled up, besides pack, state, model and tool (repeatable; at most 4; none by default)")
	fs.BoolVar(&c.RequireBounded, "require-bounded", c.RequireBounded, "refuse packs with a loop that the pack does not bound")
	fs.StringArrayVar(&c.AllowTools, "allow-tool", c.AllowTools, "tool that may be called, '*' for all (repeatable; none by default)")
	ModelFlags(fs, c)
	fs.BoolVar(&c.InsecureBind, "insecure-bind", c.InsecureBind, "permit an address other than loopback without tokens and client certificates")
	fs.StringVar(&c.TLSCert, "tls-cert", c.TLSCert, "PEM file of the server's certificate chain")
	fs.StringVar(&c.TLSKey, "tls-key", c.TLSKey, "PEM file of the server's key")
	fs.StringVar(&c.TLSClientCA, "tls-client-ca", c.TLSClientCA, "PEM file of the authority that signs callers' certificates")
	fs.StringVar(&c.CertificatesFile, "certificates-file", c.CertificatesFile, "file of rights of client certificates: NAME SCOPE[,SCOPE...] per line")
	fs.StringVar(&c.TokensFile, "tokens-file", c.TokensFile, "file of bearer tokens: PRINCIPAL SCOPE[,SCOPE...][@NAMESPACE...] sha256:DIGEST per line")
	fs.StringVar(&c.OIDCFile, "oidc-file", c.OIDCFile, "YAML file of trusted issuers of JSON web tokens and of the scopes that their claims give")
	fs.StringVar(&c.LinkURL, "link-url", c.LinkURL, "public base URL of the HTTP port, for decision links (no links by default)")
	fs.StringVar(&c.LinkKeysFile, "link-keys-file", c.LinkKeysFile, "file of the keys of decision links, a key in each line: the first signs, all verify")
	fs.DurationVar(&c.LinkExpiry, "link-expiry", c.LinkExpiry, "how long a decision link holds; 0 = no time limit")
	fs.StringVar(&c.QuotasFile, "quotas-file", c.QuotasFile, "YAML file of quotas of namespaces and principals (none by default)")
	fs.StringVar(&c.CallLimits, "limits", c.CallLimits, "YAML file of limits of concurrent calls and calls per minute of models and tools (no limit by default)")
	fs.StringVar(&c.Prices, "prices", c.Prices, "YAML file of prices of models that packs do not price: MODEL: {input, cached, output, reasoning}, US dollars for a million tokens")
	fs.StringVar(&c.Budgets, "budgets", c.Budgets, "YAML file of accounts: budgets over all runs with a label, for each day, each month or in total (none by default)")
	fs.StringVar(&c.Schedules, "schedules", c.Schedules, "YAML file of schedules: ID: {cron, time_zone, pack, ...}; read again at SIGHUP")
	fs.StringVar(&c.Audit, "audit", c.Audit, "directory of the audit log, a line for each call that changes something or is refused (off by default)")
	fs.StringVar(&c.AuditKey, "audit-key", c.AuditKey, "file of the HMAC key of the audit's hash chain (a plain hash by default)")
	fs.Var(&c.AuditBytes, "audit-bytes", "size at which an audit file is rotated")
	fs.StringVar(&c.Metrics, "metrics", c.Metrics, "HOST:PORT that serves metrics for Prometheus at /metrics (off by default)")
	fs.StringVar(&c.OTLPEndpoint, "otlp-endpoint", c.OTLPEndpoint, "URL of a collector of OpenTelemetry traces and metrics, OTLP over gRPC (off by default)")
	fs.Float64Var(&c.TraceSample, "trace-sample", c.TraceSample, "sampling rate: share of runs that start a trace, 0 to 1")
	fs.BoolVar(&c.Channelz, "channelz", c.Channelz, "serve gRPC channelz to principals with the scope admin")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long calls in flight have to finish after SIGTERM")
	fs.DurationVar(&c.WallTime, "wall-time", c.WallTime, "duration of a run where neither the pack nor the start request sets one; 0 = no limit")
	fs.DurationVar(&c.MaxWallTime, "max-wall-time", c.MaxWallTime, "longest duration of any run, even if its pack allows more; 0 = no limit")
	fs.DurationVar(&c.Lease, "lease", c.Lease, "lease of a turn: a worker that sends no heartbeat for so long loses the turn; the pack may set another")
	fs.DurationVar(&c.StepGrace, "step-grace", c.StepGrace, "how long a step waits for its disconnected worker to reconnect")
	fs.DurationVar(&c.RestartGrace, "restart-grace", c.RestartGrace, "how long after a start a step waits for the worker that had its lease before")
	fs.DurationVar(&c.BlobGrace, "blob-grace", c.BlobGrace, "how long an unreferenced blob is kept")
	fs.StringArrayVar(&c.Retain, "retain", c.Retain, "rule by which ended runs are deleted: 'older_than=720h status=FAILED|CANCELLED label=K=V keep_newest=N max_bytes=SIZE archive=DIR' (repeatable; none by default)")
	fs.DurationVar(&c.RetentionEvery, "retention-every", c.RetentionEvery, "interval of the retention job")
	fs.DurationVar(&c.RetentionGrace, "retention-grace", c.RetentionGrace, "shortest time that a run is kept after its end, over all retention rules; at least a day for runs that another sidecar delegated")
	fs.BoolVar(&c.RetentionPreview, "retention-preview", c.RetentionPreview, "only log what the retention rules would delete")
	fs.DurationVar(&c.DeletedRunRetention, "retention-deleted", c.DeletedRunRetention, "how long the record of a deleted run is kept; until then its id cannot be used again; 0 = for ever")
	fs.DurationVar(&c.ConsumerRetention, "retention-consumers", c.ConsumerRetention, "how long the position of a named consumer is kept after its last read; 0 = for ever")
	fs.DurationVar(&c.DeadLetterRetention, "retention-dead-letters", c.DeadLetterRetention, "how long dead letters are kept; 0 = for ever")
	bindLog(fs, c)
	bindLimits(fs, &c.Limits)
}

func bindA2A(fs *pflag.FlagSet, c *Config) {
	fs.BoolVar(&c.MCP, "mcp", c.MCP, "serve the agents of registered packs as MCP tools, at /mcp of the HTTP port")
	fs.BoolVar(&c.A2A, "a2a", c.A2A, "serve the agents of registered packs over A2A")
	fs.StringVar(&c.A2ARoot, "a2a-root", c.A2ARoot, "agent of callers without a tenant: PACK or PACK/AGENT")
	fs.StringVar(&c.A2AURL, "a2a-url", c.A2AURL, "public base URL of the HTTP port, for agent cards")
	fs.StringVar(&c.A2AGRPC, "a2a-grpc", c.A2AGRPC, "public HOST:PORT of the gRPC port, for agent cards")
	fs.StringVar(&c.A2AExecution, "a2a-execution", c.A2AExecution, "executor of the runs of A2A and MCP callers: WORKERS or SIDECAR (default: the sidecar where it has a model)")
	fs.BoolVar(&c.A2ALenientVersion, "a2a-lenient-version", c.A2ALenientVersion, "treat A2A calls without A2A-Version as 1.0")
	fs.BoolVar(&c.A2AStreaming, "a2a-streaming", c.A2AStreaming, "stream tasks over A2A; cards say so")
	fs.BoolVar(&c.A2APush, "a2a-push", c.A2APush, "send A2A push notifications; cards say so")
	fs.StringArrayVar(&c.A2ARequire, "a2a-require", c.A2ARequire, "extension URI that A2A callers must declare (repeatable)")
	fs.StringVar(&c.A2ACardKey, "a2a-card-key", c.A2ACardKey, "PEM file of the private key that signs agent cards")
}

// bindStore adds the flags of a store in a database.
func bindStore(fs *pflag.FlagSet, c *Config) {
	fs.Var(&c.Store, "store", "PostgreSQL database for the store, instead of a directory: postgres://USER@HOST[:PORT]/DATABASE?sslmode=verify-full")
	fs.StringVar(&c.StorePasswordFile, "store-password-file", c.StorePasswordFile, "file of the password of --store (or in its URL, PGPASSWORD or PGPASSFILE)")
	fs.StringVar(&c.StoreSchema, "store-schema", c.StoreSchema, "schema in the database of --store: one for each sidecar, or the same one for all with --peer-listen")
	fs.BoolVar(&c.AcceptLossOnFailover, "accept-loss-on-failover", c.AcceptLossOnFailover, "serve on a database that can lose acknowledged commits, as one without a synchronous standby can on failover")
	fs.BoolVar(&c.RequireSync, "require-sync", c.RequireSync, "refuse a database that has no connected synchronous standby")
	fs.StringVar(&c.PeerListen, "peer-listen", c.PeerListen, "HOST:PORT at which the other sidecars on --store connect to this one; turns on the cluster; port 0 selects a free port")
	fs.StringVar(&c.PeerAddress, "peer-address", c.PeerAddress, "HOST:PORT at which the other sidecars reach --peer-listen (default: the bound one)")
}

func bindLog(fs *pflag.FlagSet, c *Config) {
	fs.StringVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn or error")
	fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
}

// ModelFlags adds the flags for the models that the sidecar itself calls.
func ModelFlags(fs *pflag.FlagSet, c *Config) {
	fs.StringArrayVar(&c.Models, "model", c.Models, "model for runs that the sidecar executes: NAME=BASE_URL[#MODEL], anthropic+BASE_URL for Anthropic's form, responses+BASE_URL for OpenAI's Responses; its key is PAWL_MODEL_KEY_NAME (repeatable)")
	fs.StringArrayVar(&c.ModelKeys, "model-key", c.ModelKeys, "file of a model's key: NAME=FILE (repeatable)")
	fs.StringArrayVar(&c.Provider, "provider", c.Provider, "model for a provider key of packs (requires.providers): KEY=MODEL, where MODEL is the NAME of a --model (repeatable)")
	fs.StringVar(&c.ModelsFile, "models", c.ModelsFile, "YAML file of further models: NAME: BASE_URL[#MODEL], or NAME: {url, key_file}; read again at SIGHUP")
	fs.DurationVar(&c.ModelTimeout, "model-timeout", c.ModelTimeout, "how long one call of a model may take")
}

// bindLimits adds the flags of the limits to fs.
func bindLimits(fs *pflag.FlagSet, l *Limits) {
	fs.Var(&l.PackBytes, "limits-pack-bytes", "size of a pack document")
	fs.Var(&l.MessageBytes, "limits-message-bytes", "size of one gRPC message")
	fs.Var(&l.ArtifactBytes, "limits-artifact-bytes", "size of one written artifact value")
	fs.Var(&l.RunArtifactBytes, "limits-run-artifact-bytes", "size of a run's artifacts together")
	fs.Var(&l.ConversationBytes, "limits-conversation-bytes", "size of a run's messages together")
	fs.Var(&l.VariablesBytes, "limits-variables-bytes", "size of a run's variables together")
	fs.Var(&l.CacheBytes, "limits-cache-bytes", "size of the run states held in memory")
	fs.Var(&l.WatchBytes, "limits-watch-bytes", "size of the records that all streams together have read and not yet sent; above it each reads one entry at a time")
	fs.Var(&l.BlobBytes, "limits-blob-bytes", "size of one blob")
	fs.IntVar(&l.Workers, "limits-workers", l.Workers, "connected workers of a namespace")
	fs.IntVar(&l.WorkerTurns, "limits-worker-turns", l.WorkerTurns, "turns that one worker holds at once")
	fs.IntVar(&l.WorkerSteps, "limits-worker-steps", l.WorkerSteps, "steps that one worker holds at once")
	fs.IntVar(&l.Streams, "limits-streams", l.Streams, "streams and waits that are open at once")
	fs.IntVar(&l.Labels, "limits-labels", l.Labels, "labels of a run")
	fs.IntVar(&l.RunsInFlight, "limits-runs-in-flight", l.RunsInFlight, "runs that have not ended")
	fs.IntVar(&l.Inputs, "limits-inputs", l.Inputs, "inputs in flight over all runs; beyond it requests for new work are refused")
	fs.IntVar(&l.QueuedInputs, "limits-queued-inputs", l.QueuedInputs, "inputs that wait for the next turn of a run")
	fs.IntVar(&l.RunQueue, "limits-run-queue", l.RunQueue, "calls that wait for one run")
	fs.IntVar(&l.MaxTransitions, "limits-max-transitions", l.MaxTransitions, "transitions of a run")
	fs.IntVar(&l.DeadLetters, "limits-dead-letters", l.DeadLetters, "dead letters of a namespace; the oldest are removed; 0 = only the limit of 10000 for each subscription")
	fs.IntVar(&l.RequestsPerSecond, "limits-requests-per-second", l.RequestsPerSecond, "calls per second of one principal; 0 = no bound")
}
