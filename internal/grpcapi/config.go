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

// Config is everything a [Server] is built from.
type Config struct {
	// Runtime is the engine with its services. Set either Runtime or Router.
	Runtime *services.Runtime
	// Router takes calls to the partition that executes them, perhaps in another process, see
	// [Server.Services]. Store and Deliveries then belong to the partition, and Spaces are the
	// existing namespaces.
	Router Router
	Spaces validate.Namespaces
	// Quotas limits the use of this server by callers. Default: the quotas of Runtime, if any.
	Quotas *quota.Limits
	// Store serves the calls about the whole store; nil = they are refused.
	Store StoreBackend
	// Failed is closed when the store can no longer commit: the server then
	// reports NOT_SERVING. nil = never.
	Failed <-chan struct{}
	// Log receives faults, and at debug level every call; never a payload, a
	// token or an artifact. Default: discarded.
	Log *slog.Logger

	// Audit gets a line for each call that changes state or is refused; nil = no audit. The
	// caller of New keeps its ownership.
	Audit *audit.Log
	// Counts is called for refused calls and ignored answers; nil = no counts.
	Counts CallCounts

	// Listen is HOST:PORT of the gRPC port; "" = none. Port 0 takes a free one.
	// Where callers show neither tokens nor certificates an empty HOST is loopback
	// and any other address than loopback is refused.
	Listen string
	// Socket is the path of a Unix socket that serves the same, mode 0600; ""
	// = none. It is never encrypted; tokens are asked for on it as well.
	Socket string
	// HTTP is HOST:PORT of the JSON gateway, under the rules of Listen; "" = off.
	HTTP string
	// Metrics is HOST:PORT of a listener for MetricsPage at /metrics, under the rules
	// of Listen; "" = off.
	Metrics     string
	MetricsPage http.Handler
	// HTTPHosts are values of the Host header that the gateway takes besides
	// loopback names, with or without port.
	HTTPHosts []string
	// HTTPOrigins are web origins (scheme://host[:port]) that may call the
	// gateway besides its own pages. A request that carries another Origin is
	// refused.
	HTTPOrigins []string
	// Page is served by the gateway at PagePath and below; nil = none.
	Page     http.Handler
	PagePath string

	// Links is what decision links are made with, and LinkKeys are their keys: the first signs, all
	// verify. Without keys there are no links.
	Links    LinkConfig
	LinkKeys decisionlink.Keys

	// Own is a secret of this process, at least 16 bytes. A caller with it is the sidecar
	// itself; "" = the sidecar makes no calls of its own.
	Own string

	// Deliveries sends to webhooks and other receivers; nil = no deliveries.
	Deliveries Deliveries
	// Plugin makes the service of another package on this server; nil = none. It is
	// called once, before anything is bound or served.
	Plugin func(*Server) (Plugin, error)

	// InsecureBind permits an address other than loopback without tokens or certificates.
	InsecureBind bool
	// TLSCert and TLSKey are PEM files; both or neither.
	TLSCert, TLSKey string
	// TLSClientCA is a PEM file; set, callers must show a certificate signed by it.
	// Without tokens the certificate's name is the caller's.
	TLSClientCA string
	// Certificates are the rights of the holders of certificates ([ReadCertificates]). A holder
	// that is not in it has none.
	Certificates []auth.Certificate
	// Issuers are the trusted issuers of bearer tokens ([oidc.Read]).
	Issuers []oidc.Issuer
	// Tokens are the bearer tokens ([ReadTokens]). Without them and Issuers and without
	// TLSClientCA there is no authentication: everyone is "anonymous" with every scope
	// but admin.
	Tokens []auth.Token

	// MaxMessageBytes bounds one received message. Default [DefaultMessageBytes].
	MaxMessageBytes int
	// RequestsPerSecond bounds the calls of one principal; 0 = no bound. A burst
	// of one second's calls, at least 1, is let through.
	RequestsPerSecond float64
	// MaxStreams bounds the streams and waits that are open at once. Default
	// [DefaultStreams].
	MaxStreams int
	// Channelz serves grpc.channelz.v1 to principals with the scope admin.
	Channelz bool
}

// Bounds of the settings above. The defaults are those of `pawl serve`.
const (
	DefaultMessageBytes = 4 << 20
	DefaultStreams      = 20_000
	maxMessageBytesCap  = 64 << 20
	// sendMessageBytes bounds one sent message: a turn with a conversation of
	// 4 MiB, its prompt and 1 MiB of artifacts fits.
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

// open reports whether an address other than loopback may be bound.
func (c Config) open() bool { return c.protected() || c.InsecureBind }

// callStreams are the calls of one connection that may be under way besides the
// streams and waits, which have a bound of their own for all connections together.
const callStreams = 4096

// connectionStreams bounds what one connection has open at once; further calls of it
// wait at the client. Without it a connection could have handlers without end.
func (c Config) connectionStreams() uint32 {
	return uint32(min(int64(c.MaxStreams)+callStreams, math.MaxUint32))
}
