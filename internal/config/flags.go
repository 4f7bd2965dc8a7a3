package config

import (
	"github.com/spf13/pflag"
)

// Flags adds a flag for every setting to fs, with the defaults as their
// defaults, plus --config for the file. The values are read by [Load].
func Flags(fs *pflag.FlagSet) {
	fs.String("config", "", "YAML file with settings (environment and flags overrule it)")
	c := Default()
	bind(fs, &c)
}

// bind registers the settings with c as their storage and their default.
func bind(fs *pflag.FlagSet, c *Config) {
	fs.StringVar(&c.Data, "data", c.Data, "directory of the store (required without --store)")
	bindStore(fs, c)
	fs.StringVar(&c.EncryptionKeyFile, "encryption-key-file", c.EncryptionKeyFile, "file of the key under which the store is encrypted: 16, 24 or 32 bytes, hex or base64")
	fs.DurationVar(&c.DataKeyAge, "data-key-age", c.DataKeyAge, "how long new files of an encrypted store are written under one data key")
	fs.StringVar(&c.Listen, "listen", c.Listen, "HOST:PORT of the gRPC port; port 0 takes a free one")
	fs.StringVar(&c.Socket, "socket", c.Socket, "path of a Unix socket that serves the same")
	fs.StringVar(&c.HTTP, "http", c.HTTP, "HOST:PORT of the JSON gateway (off by default)")
	fs.StringArrayVar(&c.HTTPHosts, "http-host", c.HTTPHosts, "Host header that the gateway and the metrics take besides loopback names (repeatable)")
	fs.StringArrayVar(&c.HTTPOrigins, "http-origin", c.HTTPOrigins, "web origin that may call the gateway (repeatable)")
	bindA2A(fs, c)
	fs.StringArrayVar(&c.Agent, "agent", c.Agent, "agent that runs delegate to and that lives elsewhere: AGENT=CARD_URL (repeatable)")
	fs.StringArrayVar(&c.PushAllow, "push-allow", c.PushAllow, "private address or CIDR that push notifications and webhooks may go to (repeatable)")
	fs.StringArrayVar(&c.Packs, "pack", c.Packs, "pack file to register before serving (repeatable)")
	fs.StringArrayVar(&c.Namespaces, "namespace", c.Namespaces, "namespace to serve besides default (repeatable)")
	fs.StringVar(&c.Strict, "strict", c.Strict, "published schema that packs must follow to the letter: 1.4.0 or 1.5.0")
	fs.Lookup("strict").NoOptDefVal = "1.4.0"
	fs.BoolVar(&c.RequireBounded, "require-bounded", c.RequireBounded, "refuse packs with a loop that nothing of the pack bounds")
	fs.StringArrayVar(&c.AllowTools, "allow-tool", c.AllowTools, "tool that may be called, '*' for all (repeatable; none by default)")
	ModelFlags(fs, c)
	fs.BoolVar(&c.InsecureBind, "insecure-bind", c.InsecureBind, "permit an address other than loopback without tokens and client certificates")
	fs.StringVar(&c.TLSCert, "tls-cert", c.TLSCert, "PEM file of the server's certificate chain")
	fs.StringVar(&c.TLSKey, "tls-key", c.TLSKey, "PEM file of the server's key")
	fs.StringVar(&c.TLSClientCA, "tls-client-ca", c.TLSClientCA, "PEM file of the authority that signs callers' certificates")
	fs.StringVar(&c.CertificatesFile, "certificates-file", c.CertificatesFile, "file of rights of client certificates: NAME SCOPE[,SCOPE...] per line")
	fs.StringVar(&c.TokensFile, "tokens-file", c.TokensFile, "file of bearer tokens: PRINCIPAL SCOPE[,SCOPE...][@NAMESPACE...] sha256:DIGEST per line")
	fs.StringVar(&c.OIDCFile, "oidc-file", c.OIDCFile, "YAML file of issuers whose JSON web tokens count, and of what they give")
	fs.StringVar(&c.QuotasFile, "quotas-file", c.QuotasFile, "YAML file of how much namespaces and principals may have (no bounds of their own by default)")
	fs.StringVar(&c.CallLimits, "limits", c.CallLimits, "YAML file of how many calls of models and tools there may be at once and in a minute (any number by default)")
	fs.StringVar(&c.Prices, "prices", c.Prices, "YAML file of what models cost that packs do not price: MODEL: {input, cached, output, reasoning}, US dollars for a million tokens")
	fs.StringVar(&c.Budgets, "budgets", c.Budgets, "YAML file of accounts over runs: what all with a label may spend in a day, a month or ever (none by default)")
	fs.StringVar(&c.Schedules, "schedules", c.Schedules, "YAML file of runs that begin by the clock: ID: {cron, time_zone, pack, ...}; read again at SIGHUP")
	fs.StringVar(&c.Audit, "audit", c.Audit, "directory for a line of each call that changes something or is refused (off by default)")
	fs.StringVar(&c.AuditKey, "audit-key", c.AuditKey, "file of the key that the audit's chain is made with (a plain hash by default)")
	fs.Var(&c.AuditBytes, "audit-bytes", "size at which a file of the audit is full")
	fs.StringVar(&c.Metrics, "metrics", c.Metrics, "HOST:PORT that serves metrics for Prometheus at /metrics (off by default)")
	fs.StringVar(&c.OTLPEndpoint, "otlp-endpoint", c.OTLPEndpoint, "URL of a collector of OpenTelemetry traces and metrics, OTLP over gRPC (off by default)")
	fs.Float64Var(&c.TraceSample, "trace-sample", c.TraceSample, "share of runs that begin a trace, 0 to 1")
	fs.BoolVar(&c.Channelz, "channelz", c.Channelz, "serve gRPC's own introspection to principals with the scope admin")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long calls in flight may finish after SIGTERM")
	fs.DurationVar(&c.WallTime, "wall-time", c.WallTime, "how long a run may take whose pack and starter do not say; 0 = no bound")
	fs.DurationVar(&c.MaxWallTime, "max-wall-time", c.MaxWallTime, "how long any run may take, whatever its pack says; 0 = no bound")
	fs.DurationVar(&c.Lease, "lease", c.Lease, "how long a worker holds a turn without a sign of life, where the pack does not say")
	fs.DurationVar(&c.StepGrace, "step-grace", c.StepGrace, "how long a step waits for the worker that was lost with it")
	fs.DurationVar(&c.RestartGrace, "restart-grace", c.RestartGrace, "how long after the start a step waits for the worker that had it before")
	fs.DurationVar(&c.BlobGrace, "blob-grace", c.BlobGrace, "how long a blob is kept that nothing refers to")
	fs.StringArrayVar(&c.Retain, "retain", c.Retain, "rule by which ended runs are deleted: 'older_than=720h status=FAILED|CANCELLED label=K=V keep_newest=N max_bytes=SIZE archive=DIR' (repeatable; none by default)")
	fs.DurationVar(&c.RetentionEvery, "retention-every", c.RetentionEvery, "pause between two looks at the rules of retention")
	fs.DurationVar(&c.RetentionGrace, "retention-grace", c.RetentionGrace, "how long every run is kept after its end, whatever the rules of retention say; one that another sidecar asked for at least a day")
	fs.BoolVar(&c.RetentionPreview, "retention-preview", c.RetentionPreview, "only log what the rules of retention would delete")
	fs.DurationVar(&c.ForgetDeletedAfter, "forget-deleted-after", c.ForgetDeletedAfter, "how long it is known that a run was deleted, and its id stays used up; 0 = for ever")
	fs.DurationVar(&c.ForgetConsumersAfter, "forget-consumers-after", c.ForgetConsumersAfter, "how long the place of a consumer is kept that does not read; 0 = for ever")
	fs.DurationVar(&c.ForgetLettersAfter, "forget-letters-after", c.ForgetLettersAfter, "how long dead letters are kept; 0 = for ever")
	bindLog(fs, c)
	bindLimits(fs, &c.Limits)
}

func bindA2A(fs *pflag.FlagSet, c *Config) {
	fs.BoolVar(&c.A2A, "a2a", c.A2A, "serve the agents of registered packs over A2A")
	fs.StringVar(&c.A2ARoot, "a2a-root", c.A2ARoot, "agent of callers without a tenant: PACK or PACK/AGENT")
	fs.StringVar(&c.A2AURL, "a2a-url", c.A2AURL, "public base URL of the HTTP port, for agent cards")
	fs.StringVar(&c.A2AGRPC, "a2a-grpc", c.A2AGRPC, "public HOST:PORT of the gRPC port, for agent cards")
	fs.StringVar(&c.A2AExecution, "a2a-execution", c.A2AExecution, "who executes the tasks of A2A callers: WORKERS or SIDECAR (default: the sidecar where it has a model)")
	fs.BoolVar(&c.A2ALenientVersion, "a2a-lenient-version", c.A2ALenientVersion, "take A2A calls without A2A-Version as 1.0")
	fs.BoolVar(&c.A2AStreaming, "a2a-streaming", c.A2AStreaming, "stream tasks over A2A; cards say so")
	fs.BoolVar(&c.A2APush, "a2a-push", c.A2APush, "send A2A push notifications; cards say so")
	fs.StringArrayVar(&c.A2ARequire, "a2a-require", c.A2ARequire, "extension URI that A2A callers must declare (repeatable)")
	fs.StringVar(&c.A2ACardKey, "a2a-card-key", c.A2ACardKey, "PEM file of the private key that signs agent cards")
}

// bindStore adds the flags of a store that is in a database.
func bindStore(fs *pflag.FlagSet, c *Config) {
	fs.Var(&c.Store, "store", "PostgreSQL database that has the store instead of a directory: postgres://USER@HOST[:PORT]/DATABASE?sslmode=verify-full")
	fs.StringVar(&c.StorePasswordFile, "store-password-file", c.StorePasswordFile, "file of the password of --store (or in its URL, PGPASSWORD or PGPASSFILE)")
	fs.StringVar(&c.StoreSchema, "store-schema", c.StoreSchema, "schema of the database of --store that has the tables: one for each sidecar, the same one for all with --peer-listen")
	fs.BoolVar(&c.AcceptLossOnFailover, "accept-loss-on-failover", c.AcceptLossOnFailover, "serve on a database that may lose what it acknowledged, as one without a synchronous standby does when it fails over")
	fs.BoolVar(&c.RequireSync, "require-sync", c.RequireSync, "refuse a database without a synchronous standby that follows now")
	fs.StringVar(&c.PeerListen, "peer-listen", c.PeerListen, "HOST:PORT for the other sidecars on --store, which stand by for each other and take every call; port 0 takes a free one")
	fs.StringVar(&c.PeerAddress, "peer-address", c.PeerAddress, "HOST:PORT at which the other sidecars reach --peer-listen (default: the bound one)")
}

func bindLog(fs *pflag.FlagSet, c *Config) {
	fs.StringVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn or error")
	fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
}

// ModelFlags adds the flags that say which models the sidecar asks itself.
func ModelFlags(fs *pflag.FlagSet, c *Config) {
	fs.StringArrayVar(&c.Models, "model", c.Models, "model that the sidecar asks itself, in runs of execution SIDECAR: NAME=BASE_URL[#MODEL], anthropic+BASE_URL for Anthropic's form, responses+BASE_URL for OpenAI's Responses; its key is PAWL_MODEL_KEY_NAME (repeatable)")
	fs.StringArrayVar(&c.ModelKeys, "model-key", c.ModelKeys, "file of a model's key: NAME=FILE (repeatable)")
	fs.StringVar(&c.ModelsFile, "models", c.ModelsFile, "YAML file of further models: NAME: BASE_URL[#MODEL], or NAME: {url, key_file}; read again at SIGHUP")
	fs.DurationVar(&c.ModelTimeout, "model-timeout", c.ModelTimeout, "how long one call of a model may take")
}

func bindLimits(fs *pflag.FlagSet, l *Limits) {
	fs.Var(&l.PackBytes, "limits-pack-bytes", "size of a pack document")
	fs.Var(&l.MessageBytes, "limits-message-bytes", "size of one gRPC message")
	fs.Var(&l.ArtifactBytes, "limits-artifact-bytes", "size of one written artifact value")
	fs.Var(&l.RunArtifactBytes, "limits-run-artifact-bytes", "size of a run's artifacts together")
	fs.Var(&l.ConversationBytes, "limits-conversation-bytes", "size of a run's messages together")
	fs.Var(&l.VariablesBytes, "limits-variables-bytes", "size of a run's variables together")
	fs.Var(&l.CacheBytes, "limits-cache-bytes", "size of the run states held in memory")
	fs.Var(&l.WatchBytes, "limits-watch-bytes", "size of the records that streams have read and their readers have not taken")
	fs.Var(&l.BlobBytes, "limits-blob-bytes", "size of one blob")
	fs.IntVar(&l.Workers, "limits-workers", l.Workers, "connected workers of a namespace")
	fs.IntVar(&l.WorkerTurns, "limits-worker-turns", l.WorkerTurns, "turns that one worker holds at once")
	fs.IntVar(&l.WorkerSteps, "limits-worker-steps", l.WorkerSteps, "steps that one worker holds at once")
	fs.IntVar(&l.Streams, "limits-streams", l.Streams, "streams and waits that are open at once")
	fs.IntVar(&l.Labels, "limits-labels", l.Labels, "labels of a run")
	fs.IntVar(&l.RunsInFlight, "limits-runs-in-flight", l.RunsInFlight, "runs that have not ended")
	fs.IntVar(&l.Inputs, "limits-inputs", l.Inputs, "inputs of all runs under way; what asks for new work beyond it is refused")
	fs.IntVar(&l.QueuedInputs, "limits-queued-inputs", l.QueuedInputs, "inputs that wait for the next turn of a run")
	fs.IntVar(&l.RunQueue, "limits-run-queue", l.RunQueue, "calls that wait for one run")
	fs.IntVar(&l.MaxTransitions, "limits-max-transitions", l.MaxTransitions, "transitions of a run")
	fs.IntVar(&l.DeadLetters, "limits-dead-letters", l.DeadLetters, "dead letters of a namespace, the oldest go; 0 = no bound but 10000 of each subscription")
	fs.IntVar(&l.RequestsPerSecond, "limits-requests-per-second", l.RequestsPerSecond, "calls per second of one principal; 0 = no bound")
}
