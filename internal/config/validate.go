package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
)

// Fault is one setting that cannot be used.
type Fault struct {
	// Field is the name of the setting in the configuration file. It can also be where the value comes from: a file,
	// with line and column, an environment variable or a flag. If it is "", Message says it.
	Field string `json:"field"`
	// Message says what is wrong and which values are allowed.
	Message string `json:"message"`
	// From is where the value of the setting comes from: a flag, an environment variable, or a file with line and
	// column; "" = it is the default, or Field says it.
	From string `json:"from,omitempty"`
}

// String returns the fault in one line.
func (f Fault) String() string {
	text := f.Message
	for _, place := range []string{f.Field, f.From} {
		if place != "" {
			text = place + ": " + text
		}
	}
	return text
}

// Error lists every fault of a configuration.
type Error struct{ Faults []Fault }

// Error returns one line per fault. Further lines of a fault are indented.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "configuration: %d fault(s)", len(e.Faults))
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(f.String(), "\n", "\n    "))
	}
	return b.String()
}

// maxSocketPath is the longest path of a Unix socket on Linux.
const maxSocketPath = 107

// Validate returns an [*Error] with all faults at once, or nil.
func (c *Config) Validate() error {
	if faults := c.faults(); len(faults) > 0 {
		return &Error{Faults: faults}
	}
	return nil
}

// list collects faults.
type list []Fault

func (l *list) add(field, format string, args ...any) {
	*l = append(*l, Fault{Field: field, Message: fmt.Sprintf(format, args...)})
}

// faults returns all faults of the configuration. It opens no file.
func (c *Config) faults() []Fault {
	var l list
	c.store(&l)
	c.address(&l, "listen", c.Listen)
	if c.HTTP != "" {
		c.address(&l, "http", c.HTTP)
		if c.HTTP == c.Listen && !strings.HasSuffix(c.HTTP, ":0") {
			l.add("http", "%q is the address of listen: give it a port of its own", c.HTTP)
		}
	}
	c.telemetry(&l)
	c.gateway(&l)
	c.agents(&l)
	c.remotes(&l)
	c.providers(&l)
	c.mcp(&l)
	_, faults := c.pushPrefixes()
	l = append(l, faults...)
	c.security(&l)
	if len(c.Socket) > maxSocketPath {
		l.add("socket", "has %d bytes, at most %d", len(c.Socket), maxSocketPath)
	}
	c.namespaces(&l)
	c.words(&l)
	c.retention(&l)
	c.Limits.faults(&l)
	return l
}

// address checks the HOST:PORT of a listener. An address other than loopback needs authentication of callers, or the
// setting that allows it without.
func (c *Config) address(l *list, field, addr string) {
	host, ok := hostPort(l, field, addr, 0)
	if ok && !loopback(host) && !c.Secured() && !c.InsecureBind {
		l.add(field, "%q is not loopback: set tokens_file, or tls_client_ca with tls_cert and tls_key, or insecure_bind to do it all the same", addr)
	}
}

// hostPort checks HOST:PORT, and that the port is not below least. ok reports whether the address can be split into
// host and port.
func hostPort(l *list, field, addr string, least int) (host string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		l.add(field, "%q is no HOST:PORT", addr)
		return "", false
	}
	if n, err := strconv.Atoi(port); err != nil || n < least || n > 65535 {
		l.add(field, "port %q is none of %d to 65535", port, least)
	}
	return host, true
}

// telemetry checks the addresses for metrics and spans, and the sampling rate.
func (c *Config) telemetry(l *list) {
	if c.Metrics != "" {
		c.address(l, "metrics", c.Metrics)
		if (c.Metrics == c.Listen || c.Metrics == c.HTTP) && !strings.HasSuffix(c.Metrics, ":0") {
			l.add("metrics", "%q is the address of listen or http: give it a port of its own", c.Metrics)
		}
	}
	u, err := url.Parse(c.OTLPEndpoint)
	if c.OTLPEndpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		l.add("otlp_endpoint", "is no URL of a collector: want http(s)://host:port, without a path or credentials")
	}
	if !(c.TraceSample >= 0 && c.TraceSample <= 1) {
		l.add("trace_sample", "%v is none of 0 to 1", c.TraceSample)
	}
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// gateway checks the settings of the JSON gateway: its host names and its origins.
func (c *Config) gateway(l *list) {
	if c.HTTP == "" && (len(c.HTTPOrigins) > 0 || c.Metrics == "" && len(c.HTTPHosts) > 0) {
		l.add("http", "is off, but http_host or http_origin is set")
	}
	for i, h := range c.HTTPHosts {
		if h == "" || strings.ContainsAny(h, "/ ") {
			l.add(fmt.Sprintf("http_host[%d]", i), "%q is no host name", h)
		}
	}
	for i, o := range c.HTTPOrigins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			l.add(fmt.Sprintf("http_origin[%d]", i), "%q is no origin: want scheme://host[:port]", o)
		}
	}
}

// agents checks the A2A settings; keys and extensions are read when the sidecar starts.
func (c *Config) agents(l *list) {
	if !c.A2A && (c.A2ARoot != "" || c.A2AURL != "" || c.A2AGRPC != "" || c.A2ACardKey != "" || c.A2ALenientVersion || len(c.A2ARequire) > 0) {
		l.add("a2a", "is off, but another a2a setting is set")
	}
	if u, err := url.Parse(c.A2AURL); c.A2AURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		l.add("a2a_url", "%q is no base URL: want http(s)://host[:port][/path]", c.A2AURL)
	}
	if _, _, err := net.SplitHostPort(c.A2AGRPC); c.A2AGRPC != "" && err != nil {
		l.add("a2a_grpc", "%q is no HOST:PORT", c.A2AGRPC)
	}
	if pack, agent, sub := strings.Cut(c.A2ARoot, "/"); c.A2ARoot != "" && (pack == "" || sub && agent == "") {
		l.add("a2a_root", "%q is neither PACK nor PACK/AGENT", c.A2ARoot)
	}
}

// security checks the settings of TLS, tokens, certificates, links, tools and the audit log, and which of them
// need one another.
func (c *Config) security(l *list) {
	if c.AuditKey != "" && c.Audit == "" {
		l.add("audit_key", "needs audit: the directory of what it is for")
	}
	if c.AuditBytes < 1<<10 {
		l.add("audit_bytes", "%s is less than 1KiB", c.AuditBytes)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		l.add("tls_cert", "and tls_key are set together or not at all")
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		l.add("tls_client_ca", "needs tls_cert and tls_key")
	}
	if c.CertificatesFile != "" && c.TLSClientCA == "" {
		l.add("certificates_file", "needs tls_client_ca: it says what those may do whose certificates that one signs")
	}
	if c.CertificatesFile != "" && (c.TokensFile != "" || c.OIDCFile != "") {
		l.add("certificates_file", "is not read where tokens_file or oidc_file is set: then the token says who calls")
	}
	c.links(l)
	for i, tool := range c.AllowTools {
		if strings.TrimSpace(tool) == "" {
			l.add(fmt.Sprintf("allow_tool[%d]", i), "is empty: name a tool, or \"*\" for all")
		}
	}
	for i, p := range c.Packs {
		if p == "" {
			l.add(fmt.Sprintf("pack[%d]", i), "is empty: name a pack file")
		}
	}
}

// links checks the settings of decision links.
func (c *Config) links(l *list) {
	if (c.LinkURL == "") != (c.LinkKeysFile == "") {
		l.add("link_url", "and link_keys_file are set together or not at all")
	}
	if c.LinkURL != "" && c.HTTP == "" {
		l.add("link_url", "needs http: the port that serves the links")
	}
	if u, err := url.Parse(c.LinkURL); c.LinkURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		l.add("link_url", "%q is no base URL: want http(s)://host[:port][/path]", c.LinkURL)
	}
	between(l, "link_expiry", c.LinkExpiry, 0, 10*366*24*time.Hour)
}

// words checks the settings with a fixed set of values, and the ranges of times.
func (c *Config) words(l *list) {
	oneOf(l, "log_level", c.LogLevel, "debug", "info", "warn", "error")
	oneOf(l, "log_format", c.LogFormat, "text", "json")
	if c.DrainTimeout <= 0 {
		l.add("drain_timeout", "%s is not above 0s", c.DrainTimeout)
	}
	between(l, "data_key_age", c.DataKeyAge, time.Minute, 10*366*24*time.Hour)
	between(l, "lease", c.Lease, time.Second, 24*time.Hour)
	between(l, "wall_time", c.WallTime, 0, longestRun)
	between(l, "max_wall_time", c.MaxWallTime, 0, longestRun)
	if c.MaxWallTime > 0 && c.WallTime > c.MaxWallTime {
		l.add("wall_time", "%s is above max_wall_time (%s)", c.WallTime, c.MaxWallTime)
	}
	oneOf(l, "a2a_execution", c.A2AExecution, "", "WORKERS", "SIDECAR")
	oneOf(l, "strict", c.Strict, append([]string{""}, pack.PublishedSchemas()...)...)
	if len(c.UsageLabels) > maxUsageLabels {
		l.add("usage_label", "%d keys, at most %d", len(c.UsageLabels), maxUsageLabels)
	}
	for i, key := range c.UsageLabels {
		if key == "" || len(key) > maxUsageLabel || slices.Contains(c.UsageLabels[:i], key) {
			l.add("usage_label", "%q is not the key of a label, of 1 to %d bytes, that is named once", key, maxUsageLabel)
		}
	}
	between(l, "step_grace", c.StepGrace, time.Millisecond, time.Hour)
	between(l, "restart_grace", c.RestartGrace, time.Millisecond, time.Hour)
	between(l, "model_timeout", c.ModelTimeout, time.Second, 24*time.Hour)
	between(l, "blob_grace", c.BlobGrace, time.Minute, 10*365*24*time.Hour)
}

// longestRun bounds the settings of wall times (the time between start and end of a run), as in packs, and of retention
// times: 100 years.
const longestRun = 876_000 * time.Hour

// maxUsageLabels bounds the keys of Config.UsageLabels, because each combination of values is a row of a day.
// maxUsageLabel bounds the size of one key in bytes, as the store does.
const (
	maxUsageLabels = 4
	maxUsageLabel  = 128
)

func oneOf(l *list, field, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		l.add(field, "%q is none of %s", got, strings.Join(allowed, ", "))
	}
}

// faults checks that each limit is in its range, and that the largest artifact fits in a message and in a run.
func (b Limits) faults(l *list) {
	between(l, "limits.pack_bytes", b.PackBytes, 1<<10, 64<<20)
	between(l, "limits.message_bytes", b.MessageBytes, 64<<10, 64<<20)
	between(l, "limits.artifact_bytes", b.ArtifactBytes, 1, 4<<20)
	between(l, "limits.run_artifact_bytes", b.RunArtifactBytes, 1, 1<<30)
	between(l, "limits.conversation_bytes", b.ConversationBytes, 1, 1<<30)
	between(l, "limits.variables_bytes", b.VariablesBytes, 1, 4<<20)
	between(l, "limits.cache_bytes", b.CacheBytes, 1<<20, 64<<30)
	between(l, "limits.watch_bytes", b.WatchBytes, 1<<20, 64<<30)
	between(l, "limits.blob_bytes", b.BlobBytes, 1, 64<<30)
	between(l, "limits.workers", b.Workers, 1, 1_000_000)
	between(l, "limits.worker_turns", b.WorkerTurns, 1, 1<<16)
	between(l, "limits.worker_steps", b.WorkerSteps, 1, 1<<16)
	between(l, "limits.streams", b.Streams, 1, 1_000_000)
	between(l, "limits.labels", b.Labels, 1, 1024)
	between(l, "limits.runs_in_flight", b.RunsInFlight, 1, 1_000_000_000)
	between(l, "limits.inputs", b.Inputs, 1, 1<<20)
	between(l, "limits.queued_inputs", b.QueuedInputs, 1, 4096)
	between(l, "limits.run_queue", b.RunQueue, 1, 1<<16)
	between(l, "limits.max_transitions", b.MaxTransitions, 1, 1<<31-1)
	between(l, "limits.dead_letters", b.DeadLetters, 0, 1_000_000_000)
	between(l, "limits.requests_per_second", b.RequestsPerSecond, 0, 1<<31-1)
	if b.ArtifactBytes > b.MessageBytes {
		l.add("limits.artifact_bytes", "%s is above limits.message_bytes (%s)", b.ArtifactBytes, b.MessageBytes)
	}
	if b.ArtifactBytes > b.RunArtifactBytes {
		l.add("limits.artifact_bytes", "%s is above limits.run_artifact_bytes (%s)", b.ArtifactBytes, b.RunArtifactBytes)
	}
}

func between[T int | Bytes | time.Duration](l *list, field string, got, low, high T) {
	if got < low || got > high {
		l.add(field, "%v is none of %v to %v", got, low, high)
	}
}
