package grpcapi

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth/oidc"
	"github.com/pawl-dev/pawl/internal/grpcapi/decisionlink"
	"github.com/pawl-dev/pawl/internal/grpcapi/gateway"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/services"
)

// Config configures a [Server].
type Config struct {
	// Runtime is the engine with its services. Exactly one of Runtime and Router must be set.
	Runtime *services.Runtime
	// Router sends calls to the partition of the store that executes them, which may be in another process, see
	// [Server.Services]. If it is set, Store and Deliveries must be nil, because each partition has its own, and Spaces
	// are the existing namespaces.
	Router Router
	Spaces validate.Namespaces
	// Quotas limits how much callers may use this server. Default: the quotas of Runtime, if there are
	// any.
	Quotas *quota.Limits
	// Store executes the calls that concern the whole store. If it is nil, these calls are refused.
	Store StoreBackend
	// Failed is closed when the store can no longer commit. The server then reports NOT_SERVING. nil
	// means that this never happens.
	Failed <-chan struct{}
	// Log receives errors and, at debug level, every call. It never receives a payload, a token or an
	// artifact. Default: the log is discarded.
	Log *slog.Logger

	// Audit receives a line for each call that changes state or is refused. nil means that there is no
	// audit log. The code that calls New must close it.
	Audit *audit.Log
	// Counts is notified of refused calls and ignored answers. It may be nil.
	Counts CallCounts

	// Listen is HOST:PORT of the gRPC port. "" means that there is no port. PORT 0 means any free port.
	// If callers send neither tokens nor certificates, an empty HOST means loopback, and an address
	// other than loopback is refused.
	Listen string
	// Socket is the path of a Unix socket (mode 0600) with the same services as the gRPC port. "" means
	// that there is no socket. It is never encrypted. Tokens are required in the same way as on the
	// port.
	Socket string
	// HTTP is HOST:PORT of the JSON gateway. The rules of Listen apply. "" means that there is no
	// gateway.
	HTTP string
	// Metrics is HOST:PORT of a listener that serves MetricsPage at /metrics. The rules of Listen
	// apply. "" means that there is no listener.
	Metrics     string
	MetricsPage http.Handler
	// HTTPHosts are additional values of the Host header that the gateway accepts, with or without a
	// port. Loopback names are always accepted.
	HTTPHosts []string
	// HTTPOrigins are additional web origins (scheme://host[:port]) that may call the gateway. The
	// gateway's own pages may always call it. A request with another Origin is refused.
	HTTPOrigins []string
	// Page is the web page that the gateway serves at PagePath and below. nil means that there is no
	// page.
	Page     http.Handler
	PagePath string
	// MCP returns the handler that serves agents over MCP at [gateway.MCPPath]. The connection is the gateway's own.
	// trusted returns the issuers that are trusted now, see [oidc.Set.Trusted]. nil means that there is no handler.
	MCP func(conn grpc.ClientConnInterface, trusted func() (issuers, scopes []string)) (http.Handler, error)

	// Links configures decision links. LinkKeys are their keys: the first key signs, and all keys
	// verify. Without keys there are no links.
	Links    LinkConfig
	LinkKeys decisionlink.Keys

	// Own is a secret of this process with at least 16 bytes. A caller that sends it is the sidecar
	// itself. "" means that the sidecar does not call itself.
	Own string

	// Deliveries sends messages to webhooks and other receivers. nil means that there are no
	// deliveries.
	Deliveries Deliveries
	// Plugin creates a service of another package for this server. It is called once, before an address
	// is bound. It may be nil.
	Plugin func(*Server) (Plugin, error)

	// InsecureBind permits the server to listen on an address other than loopback without tokens or
	// certificates.
	InsecureBind bool
	// TLSCert and TLSKey are PEM files. Either both or none must be set.
	TLSCert, TLSKey string
	// TLSClientCA is a PEM file. If it is set, callers must send a certificate that this authority
	// signed. If there are neither Tokens nor Issuers, the certificate identifies the caller.
	TLSClientCA string
	// Certificates are the rights of the holders of certificates ([auth.ReadCertificates]). A holder
	// that is not listed has the rights of the name "*", or none.
	Certificates []auth.Certificate
	// Issuers are the trusted issuers of bearer tokens ([oidc.Read]).
	Issuers []oidc.Issuer
	// Tokens are the bearer tokens ([auth.ReadTokens]). Without Tokens, Issuers and TLSClientCA there
	// is no authentication: every caller is "anonymous" with every scope except admin.
	Tokens []auth.Token

	// MaxMessageBytes limits one received message. Default [DefaultMessageBytes].
	MaxMessageBytes int
	// RequestsPerSecond limits the calls of one principal. 0 means that there is no limit. Bursts of up
	// to one second's calls, but at least 1, are accepted.
	RequestsPerSecond float64
	// MaxStreams limits the number of open streams and waits. Default [DefaultStreams].
	MaxStreams int
	// Channelz serves grpc.channelz.v1 to principals with the scope admin.
	Channelz bool
}

// These are the defaults and maxima of settings in [Config]. `pawl serve` has the same defaults.
const (
	DefaultMessageBytes = 4 << 20
	DefaultStreams      = 20_000
	maxMessageBytesCap  = 64 << 20
	// sendMessageBytes limits the size of one sent message. A turn with a conversation of 4 MiB, its
	// prompt and artifacts of 1 MiB fits in it.
	sendMessageBytes = 64 << 20
)

// withDefaults returns the configuration with the default for each field that is not set.
func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = DefaultMessageBytes
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = DefaultStreams
	}
	if c.Quotas == nil && c.Runtime != nil {
		c.Quotas = c.Runtime.Quotas
	}
	if c.Quotas == nil {
		c.Quotas = quota.New(c.Spaces.WithDefault())
	}
	return c
}

// validate reports all faults at once.
func (c Config) validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check((c.Runtime == nil) == (c.Router != nil), "runtime is required, unless there is a router")
	check(c.Router == nil || c.Store == nil && c.Deliveries == nil, "store and deliveries need a runtime, and exclude a router")
	check(c.MaxMessageBytes > 0 && c.MaxMessageBytes <= maxMessageBytesCap,
		"message_bytes %d: want 1 to %d", c.MaxMessageBytes, maxMessageBytesCap)
	check(c.RequestsPerSecond >= 0 && !math.IsNaN(c.RequestsPerSecond) && !math.IsInf(c.RequestsPerSecond, 0),
		"requests_per_second %v: want 0 (no bound) or more", c.RequestsPerSecond)
	check(c.MaxStreams > 0, "streams %d: want 0 (the default) or more", c.MaxStreams)
	check(c.Metrics == "" || c.MetricsPage != nil, "metrics %q: there are none to serve", c.Metrics)
	for _, origin := range c.HTTPOrigins {
		check(gateway.ValidOrigin(origin), "http_origin %q: want scheme://host[:port]", origin)
	}
	for _, host := range c.HTTPHosts {
		check(gateway.ValidHost(host), "http_host %q: want host or host:port", host)
	}
	return errors.Join(faults...)
}

// protected reports whether callers are authenticated. Encryption alone is not enough, because any
// client that can reach the port would have all rights.
func (c Config) protected() bool {
	return c.TLSClientCA != "" || len(c.Tokens) > 0 || len(c.Issuers) > 0
}

// open reports whether the server may bind an address other than loopback.
func (c Config) open() bool { return c.protected() || c.InsecureBind }

// callStreams limits the number of running calls of one connection. Streams and waits are not counted,
// because they have a limit of their own for all connections together.
const callStreams = 4096

// connectionStreams returns the number of calls that one connection may have open at once. Further
// calls wait at the client. Without this limit, one connection could start any number of handlers.
func (c Config) connectionStreams() uint32 {
	return uint32(min(int64(c.MaxStreams)+callStreams, math.MaxUint32))
}
