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
	"github.com/pawl-dev/pawl/internal/runtime/waiting"
)

// Engine is the part of the runtime that the service uses.
type Engine interface {
	StartRun(ctx context.Context, req runtime.StartRequest) (runtime.Answer, error)
	SendInput(ctx context.Context, req runtime.InputRequest) (runtime.Answer, error)
	EmitEvent(ctx context.Context, req runtime.EmitRequest) (runtime.Answer, error)
	CancelRun(ctx context.Context, req runtime.ControlRequest) (runtime.Answer, error)
	Apply(ctx context.Context, req runtime.Request) (runtime.Answer, error)
	IsTurnAssigned(s *machine.State) bool
	// WaitingFor returns what a run waits for now. g is the graph of its pack.
	WaitingFor(ctx context.Context, s *machine.State, g *machine.Graph) *waiting.Reason
	StateAt(ctx context.Context, ref runtime.RunRef, seq uint64) (*machine.State, error)
	ListTasks(ctx context.Context, req query.ListTasksRequest) (query.TaskPage, error)
	Watch(ctx context.Context, req streams.Request) (*streams.Watch, error)
	Graph(ctx context.Context, namespace string, s *machine.State) (*machine.Graph, error)
	PackOf(ctx context.Context, namespace string, s *machine.State) (*pack.Pack, error)
	PackNamed(ctx context.Context, call runtime.Call, ref string) (*pack.Pack, error)
	PackRegistered(ctx context.Context, call runtime.Call, ref string) (int64, error)
	ListPacks(ctx context.Context, call runtime.Call, pageToken string, size int) (packs.PackPage, error)
	// NamespaceName returns the name of a namespace by its number.
	NamespaceName(number uint32) string
}

// Host is the server that serves the requests of the service.
type Host interface {
	// Principal returns the authenticated caller of a call.
	Principal(ctx context.Context) runtime.Principal
	// Admit does for HTTP requests what the interceptors do for gRPC: authentication, scopes
	// and limits. Serve the request with the returned context.
	Admit(r *http.Request, fullMethod string) (context.Context, error)
	// CheckNamespace is the second part of Admit, after the request was read. It checks the caller's
	// right to the namespace of the request, and the limit of that namespace.
	CheckNamespace(ctx context.Context, fullMethod string, request any) error
	// Completed records the outcome of an admitted HTTP request in the audit log.
	Completed(ctx context.Context, fullMethod string, request any, err error)
	// AcquireWaitSlot takes one of the places for waiting calls of a namespace. The returned context
	// ends when the server drains or when the caller loses its right. leave frees the place.
	AcquireWaitSlot(ctx context.Context, fullMethod, namespace string) (stay context.Context, leave func(), err error)
	// Addr and HTTPAddr return the bound addresses. "" means that the server has none.
	Addr() string
	HTTPAddr() string
	// Secured reports whether the ports use TLS, and whether callers must show a token or a
	// certificate.
	Secured() (tls, token, certificate bool)
}

// Config configures a [Service].
type Config struct {
	// Engine is required.
	Engine Engine
	// Log receives errors that callers must not see. Default: discarded.
	Log *slog.Logger
	// Root is the agent for calls without a tenant, "PACK" or "PACK/AGENT". Default: the entry agent of
	// the only pack with agents.
	Root string
	// URL is the public base URL of the HTTP bindings in cards. Default: the bound address.
	URL string
	// GRPCAddr is the public HOST:PORT of the gRPC port in cards. Default: the bound port at the host of URL,
	// or without URL the bound address.
	GRPCAddr string
	// Execution returns how new tasks are executed. Default: by workers. Tasks of a delegation within the
	// sidecar are executed like the delegating run.
	Execution func() machine.Execution
	// InProcess means that the only caller is this sidecar itself, which sends the delegations of its
	// runs. The principals for which it answers then come from the journal.
	InProcess bool
	// LenientVersion accepts calls without the header A2A-Version as version 1.0.
	LenientVersion bool
	// RequiredExtensions are the extensions from [Extensions] that a caller must declare.
	RequiredExtensions []string
	// CardKey signs the cards. If it is nil, they are not signed.
	CardKey *CardKey
	// NoStreams refuses streams. The agent cards then declare that there are none.
	NoStreams bool
	// Push stores the push configurations. If it is nil, the four methods about them return
	// PushNotificationNotSupported.
	Push PushConfigs
	// MaxMessageBytes limits the body of a request. Default 4 MiB.
	MaxMessageBytes int
	// ReplyGrace is how long a stream delays its first event, because the executor may answer with a
	// message instead of a task. Default 100 ms.
	ReplyGrace time.Duration
}

const (
	defaultMessageBytes = 4 << 20
	defaultReplyGrace   = 100 * time.Millisecond
)

// Service implements A2A. Safe for concurrent use. Use [New].
type Service struct {
	cfg  Config
	host Host
}

// New checks the configuration and returns a service on a host.
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

// problem converts an error for the caller, and logs what the caller must not see.
func (s *Service) problem(ctx context.Context, method string, err error) *Error {
	e, hidden := errorOf(err)
	if hidden != nil {
		s.cfg.Log.ErrorContext(ctx, "A2A call failed", "method", method, "error", hidden)
	}
	return e
}

// caller returns the call's principal and namespace in the engine's form. The namespace is the one in the tenant,
// else the principal's default namespace.
func (s *Service) caller(ctx context.Context, tenant string) runtime.Call {
	call := runtime.Call{Principal: s.host.Principal(ctx)}
	if call.Namespace, _ = validate.SplitTenant(tenant); call.Namespace == "" {
		call.Namespace = call.Principal.DefaultNamespace()
	}
	return call
}

// graph returns the graph of a task's run.
func (s *Service) graph(ctx context.Context, state *machine.State) (*machine.Graph, error) {
	return s.cfg.Engine.Graph(ctx, s.cfg.Engine.NamespaceName(state.Namespace), state)
}

// redactionFor returns which values of tool calls that wait for approval are hidden from a caller. Within one sidecar
// they are also hidden from the delegating run, because that run has other readers.
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
	return &redaction{hidden: p.XPawl().SensitiveNames().InRun(state)}, nil
}
