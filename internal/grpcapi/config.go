package grpcapi

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"

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
	// Runtime is the engine with its services. Set either Runtime or Router.
	Runtime *services.Runtime
	// Router makes calls at the partition that executes them, perhaps in another process, see
	// [Server.Services]. Store and Deliveries then belong to the partition, and Spaces are the
	// existing namespaces.
	Router Router
	Spaces validate.Namespaces
	// Quotas limits the use of this server by callers. Default: the quotas of Runtime, if any.
	Quotas *quota.Limits
	// Store executes the calls about the whole store. If it is nil, they are refused.
	Store StoreBackend
	// Failed is closed when the store can no longer commit. The server then reports NOT_SERVING. nil
	// means that it never fails.
	Failed <-chan struct{}
	// Log receives errors, and every call at debug level, but never a payload, a token or an
	// artifact. Default: discarded.
	Log *slog.Logger

	// Audit receives a line for each call that changes state or is refused. nil means no audit. The
	// caller of New must close it.
	Audit *audit.Log
	// Counts is called for refused calls and ignored answers. nil means no counts.
	Counts CallCounts

	// Listen is HOST:PORT of the gRPC port; "" means no port. Port 0 means any free port. If callers
	// show neither tokens nor certificates, an empty HOST means loopback, and an address other than
	// loopback is refused.
	Listen string
	// Socket is the path of a Unix socket that serves the same, mode 0600; "" means no socket. It is
	// never encrypted. Tokens are required on it as on the port.
	Socket string
	// HTTP is HOST:PORT of the JSON gateway, with the rules of Listen; "" means no gateway.
	HTTP string
	// Metrics is HOST:PORT of a listener that serves MetricsPage at /metrics, with the rules of
	// Listen; "" means no listener.
	Metrics     string
	MetricsPage http.Handler
	// HTTPHosts are the values of the Host header that the gateway accepts besides loopback names,
	// with or without a port.
	HTTPHosts []string
	// HTTPOrigins are the web origins (scheme://host[:port]) that may call the gateway besides its
	// own pages. A request with another Origin is refused.
	HTTPOrigins []string
	// Page is served by the gateway at PagePath and below; nil means no page.
	Page     http.Handler
	PagePath string

	// Links configures decision links, and LinkKeys are their keys: the first one signs, all of them
	// verify. Without keys there are no links.
	Links    LinkConfig
	LinkKeys decisionlink.Keys

	// Own is a secret of this process, at least 16 bytes. A caller with it is the sidecar itself. ""
	// means that the sidecar does not call itself.
	Own string

	// Deliveries sends to webhooks and other receivers; nil means no deliveries.
	Deliveries Deliveries
	// Plugin returns the service of another package for this server; nil means no plugin. It is
	// called once, before an address is bound.
	Plugin func(*Server) (Plugin, error)

	// InsecureBind permits an address other than loopback without tokens or certificates.
	InsecureBind bool
	// TLSCert and TLSKey are PEM files. Set both or neither.
	TLSCert, TLSKey string
	// TLSClientCA is a PEM file. If it is set, callers must show a certificate that it signed. If
	// there are no tokens, the certificate identifies the caller.
	TLSClientCA string
	// Certificates are the rights of the holders of certificates ([auth.ReadCertificates]). A holder
	// that is not listed has no rights.
	Certificates []auth.Certificate
	// Issuers are the trusted issuers of bearer tokens ([oidc.Read]).
	Issuers []oidc.Issuer
	// Tokens are the bearer tokens ([auth.ReadTokens]). Without Tokens, Issuers and TLSClientCA there
	// is no authentication: every caller is "anonymous" with every scope except admin.
	Tokens []auth.Token

	// MaxMessageBytes limits one received message. Default [DefaultMessageBytes].
	MaxMessageBytes int
	// RequestsPerSecond limits the calls of one principal; 0 means no limit. A burst of one second's
	// calls, at least 1, is accepted.
	RequestsPerSecond float64
	// MaxStreams limits the streams and waits that are open at once. Default [DefaultStreams].
	MaxStreams int
	// Channelz serves grpc.channelz.v1 to principals with the scope admin.
	Channelz bool
}

// Defaults and maxima of the settings above. The defaults are those of `pawl serve`.
const (
	DefaultMessageBytes = 4 << 20
	DefaultStreams      = 20_000
	maxMessageBytesCap  = 64 << 20
	// sendMessageBytes limits one sent message. A turn with a conversation of 4 MiB, its prompt and
	// 1 MiB of artifacts fits.
	sendMessageBytes = 64 << 20
)

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
	check((c.Runtime == nil) == (c.Router != nil), "house is required, or a router in its place")
	check(c.Router == nil || c.Store == nil && c.Deliveries == nil, "store and deliveries are those of a house, and a router knows it")
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

// protected reports whether callers are authenticated. Encryption alone is not enough: any
// client that reaches the port would have every right.
func (c Config) protected() bool {
	return c.TLSClientCA != "" || len(c.Tokens) > 0 || len(c.Issuers) > 0
}

// open reports whether the server may bind an address other than loopback.
func (c Config) open() bool { return c.protected() || c.InsecureBind }

// callStreams limits the running calls of one connection, not counting streams and waits, which have a
// limit of their own for all connections together.
const callStreams = 4096

// connectionStreams is the number of calls that one connection may have open at once. Further calls wait
// at the client. Without the limit one connection could start any number of handlers.
func (c Config) connectionStreams() uint32 {
	return uint32(min(int64(c.MaxStreams)+callStreams, math.MaxUint32))
}
