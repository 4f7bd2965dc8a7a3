package a2a

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Engine is what the service needs of [runtime.Engine].
type Engine interface {
	StartRun(ctx context.Context, req runtime.StartRequest) (runtime.Answer, error)
	SendInput(ctx context.Context, req runtime.InputRequest) (runtime.Answer, error)
	EmitEvent(ctx context.Context, req runtime.EmitRequest) (runtime.Answer, error)
	CancelRun(ctx context.Context, req runtime.ControlRequest) (runtime.Answer, error)
	Apply(ctx context.Context, req runtime.Request) (runtime.Answer, error)
	IsTurnAssigned(s *machine.State) bool
	StateAt(ctx context.Context, ref runtime.RunRef, seq uint64) (*machine.State, error)
	ListTasks(ctx context.Context, req query.ListTasksRequest) (query.TaskPage, error)
	Watch(ctx context.Context, req streams.Request) (*streams.Watch, error)
	Graph(ctx context.Context, namespace string, s *machine.State) (*machine.Graph, error)
	PackOf(ctx context.Context, namespace string, s *machine.State) (*pack.Pack, error)
	PackNamed(ctx context.Context, call runtime.Call, ref string) (*pack.Pack, error)
	PackRegistered(ctx context.Context, call runtime.Call, ref string) (int64, error)
	ListPacks(ctx context.Context, call runtime.Call, pageToken string, size int) (packs.PackPage, error)
	// NamespaceName is the name of a run's namespace.
	NamespaceName(number uint32) string
}

// Host is the server that the service is on.
type Host interface {
	// Principal is the caller of an admitted call.
	Principal(ctx context.Context) runtime.Principal
	// Admit does for HTTP requests what the interceptors do for gRPC: authentication, scopes
	// and limits. Serve the request with the returned context.
	Admit(r *http.Request, fullMethod string) (context.Context, error)
	// CheckNamespace is the rest of Admit, once the request is read: whether the namespace that it
	// names is one of the caller's, and whether it is too much for that.
	CheckNamespace(ctx context.Context, fullMethod string, request any) error
	// Completed is called with the outcome of an admitted request.
	Completed(ctx context.Context, fullMethod string, request any, err error)
	// AcquireWaitSlot takes a place among the calls of a namespace that wait. Its context ends when the server
	// drains or the caller's right is withdrawn; leave gives the place back.
	AcquireWaitSlot(ctx context.Context, fullMethod, namespace string) (stay context.Context, leave func(), err error)
	// Addr and HTTPAddr are the bound addresses, "" = not listened on.
	Addr() string
	HTTPAddr() string
	// Secured says whether the addresses speak TLS, and whether callers must show a
	// token or a certificate.
	Secured() (tls, token, certificate bool)
}

// Config is what a [Service] is built from.
type Config struct {
	// Engine is required.
	Engine Engine
	// Log gets what callers must not see. Default: discarded.
	Log *slog.Logger
	// Root is the agent without a tenant, "PACK" or "PACK/AGENT"; "" = the entry
	// agent of the one pack that has agents.
	Root string
	// URL is the public base URL of the HTTP bindings, as cards name it; "" = the
	// bound address.
	URL string
	// GRPCAddr is the public HOST:PORT of the gRPC port; "" = the bound address.
	GRPCAddr string
	// Execution says how new tasks are executed. Default: by workers. Tasks of a delegation
	// within the sidecar are executed like the delegating run.
	Execution func() machine.Execution
	// InProcess: the only caller is this sidecar's own outbox. The journal has the principals
	// for which it answers.
	InProcess bool
	// LenientVersion takes calls without A2A-Version as 1.0.
	LenientVersion bool
	// RequiredExtensions are those of [Extensions] that a caller must declare.
	RequiredExtensions []string
	// CardKey signs the cards; nil = they are not signed.
	CardKey *CardKey
	// NoStreams refuses streams, as the card says then.
	NoStreams bool
	// Push keeps the push configurations; nil = the four operations answer
	// PushNotificationNotSupported.
	Push PushConfigs
	// MaxMessageBytes bounds a request body. Default 4 MiB.
	MaxMessageBytes int
	// ReplyGrace is how long a stream holds its first event for an executor that
	// answers with a message instead of a task. Default 100 ms.
	ReplyGrace time.Duration
}

const (
	defaultMessageBytes = 4 << 20
	defaultReplyGrace   = 100 * time.Millisecond
)

// Service answers A2A. Safe for concurrent use. Use [New].
type Service struct {
	cfg  Config
	host Host
}

// New checks the configuration and builds a service on a host.
func New(cfg Config, host Host) (*Service, error) {
	if cfg.Engine == nil || host == nil {
		return nil, errors.New("a2a: engine and host are required")
	}
	for _, uri := range cfg.RequiredExtensions {
		if !slices.Contains(Extensions, uri) {
			return nil, fmt.Errorf("a2a: extension %q is none of %v", uri, Extensions)
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxMessageBytes == 0 {
		cfg.MaxMessageBytes = defaultMessageBytes
	}
	if cfg.ReplyGrace == 0 {
		cfg.ReplyGrace = defaultReplyGrace
	}
	return &Service{cfg: cfg, host: host}, nil
}

// problem gives an error its form and logs what is kept back.
func (s *Service) problem(ctx context.Context, method string, err error) *Error {
	e, hidden := errorOf(err)
	if hidden != nil {
		s.cfg.Log.ErrorContext(ctx, "A2A call failed", "method", method, "error", hidden)
	}
	return e
}

// caller is the principal of a call to an agent as the engine takes it: in the namespace
// that the tenant names, else in its own.
func (s *Service) caller(ctx context.Context, tenant string) runtime.Call {
	call := runtime.Call{Principal: s.host.Principal(ctx)}
	if call.Namespace, _ = validate.SplitTenant(tenant); call.Namespace == "" {
		call.Namespace = call.Principal.DefaultNamespace()
	}
	return call
}

// graph is the control flow of a task's run.
func (s *Service) graph(ctx context.Context, state *machine.State) (*machine.Graph, error) {
	return s.cfg.Engine.Graph(ctx, s.cfg.Engine.NamespaceName(state.Namespace), state)
}

// redactionFor returns what is hidden of held calls from a caller. Between members of this
// sidecar it hides them from the delegating run as well, because that run has other readers.
func (s *Service) redactionFor(ctx context.Context, caller runtime.Call, state *machine.State, g *machine.Graph) (*redaction, error) {
	asks := false
	for _, tool := range g.Tools {
		asks = asks || tool.Approval != nil
	}
	if !asks || !s.cfg.InProcess && caller.Principal.Scopes.Has(runtime.ScopeValuesSensitive) {
		return nil, nil
	}
	p, err := s.cfg.Engine.PackOf(ctx, s.cfg.Engine.NamespaceName(state.Namespace), state)
	if err != nil {
		return nil, err
	}
	return &redaction{hidden: p.XPawl().Hidden().In(state)}, nil
}
