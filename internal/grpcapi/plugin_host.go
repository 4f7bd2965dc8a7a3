package grpcapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// Services are the host of a plugin whose callers were authenticated by the server that they
// called, perhaps another process: the caller is in the context, [auth.WithCaller].

// Principal is the caller of a call that was admitted.
func (o *Services) Principal(ctx context.Context) runtime.Principal { return o.s.Principal(ctx) }

// Admit says whether a request is its caller's to make. Whether it is too much was asked
// where it came in.
func (o *Services) Admit(r *http.Request, method string) (context.Context, error) {
	ctx := r.Context()
	p := auth.CallerOf(ctx)
	err := o.s.authorize(p, method)
	o.s.refused(ctx, method, p, err)
	return ctx, err
}

// CheckNamespace is [Server.CheckNamespace].
func (o *Services) CheckNamespace(ctx context.Context, method string, request any) error {
	return o.s.CheckNamespace(ctx, method, request)
}

// Completed is [Server.Completed].
func (o *Services) Completed(ctx context.Context, method string, request any, err error) {
	o.s.Completed(ctx, method, request, err)
}

// AcquireWaitSlot takes a place among the calls of a namespace that stay open, "" being its caller's own. Its context ends when the
// services do or the caller loses its right to the method; the cause says
// which. leave gives the place back.
func (o *Services) AcquireWaitSlot(ctx context.Context, method, namespace string) (stay context.Context, leave func(), err error) {
	free, err := o.runs.streams.Enter(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	stay, end := o.runs.guarded(ctx, method)
	return stay, func() { end(); free() }, nil
}

// Addr is [Server.Addr].
func (o *Services) Addr() string { return o.s.Addr() }

// HTTPAddr is [Server.HTTPAddr].
func (o *Services) HTTPAddr() string { return o.s.HTTPAddr() }

// Secured is [Server.Secured].
func (o *Services) Secured() (tls, token, certificate bool) { return o.s.Secured() }
