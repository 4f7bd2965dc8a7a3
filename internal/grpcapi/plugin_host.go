package grpcapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// The methods in this file let Services be the host of a plugin. The caller was already authenticated
// by the server that received the call, perhaps in another process. The context contains the caller,
// see [auth.WithCaller].

// Principal returns the authenticated caller of a call.
func (o *Services) Principal(ctx context.Context) runtime.Principal { return o.s.Principal(ctx) }

// Admit checks that the caller may call a method. The server that received the call has already checked
// the limits.
func (o *Services) Admit(r *http.Request, method string) (context.Context, error) {
	ctx := r.Context()
	p := auth.CallerOf(ctx)
	err := o.s.authorize(p, method)
	o.s.refused(ctx, method, p, err)
	return ctx, err
}

// CheckNamespace calls [Server.CheckNamespace].
func (o *Services) CheckNamespace(ctx context.Context, method string, request any) error {
	return o.s.CheckNamespace(ctx, method, request)
}

// Completed calls [Server.Completed].
func (o *Services) Completed(ctx context.Context, method string, request any, err error) {
	o.s.Completed(ctx, method, request, err)
}

// AcquireWaitSlot counts a call of a namespace that stays open. "" means the caller's own namespace.
// The returned context ends when the services end or when the caller loses its right to the method. Its
// cause tells which. leave ends the call's use of the slot.
func (o *Services) AcquireWaitSlot(ctx context.Context, method, namespace string) (stay context.Context, leave func(), err error) {
	free, err := o.runs.streams.Enter(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	stay, end := o.runs.guarded(ctx, method)
	return stay, func() { end(); free() }, nil
}

// Addr calls [Server.Addr].
func (o *Services) Addr() string { return o.s.Addr() }

// HTTPAddr calls [Server.HTTPAddr].
func (o *Services) HTTPAddr() string { return o.s.HTTPAddr() }

// Secured calls [Server.Secured].
func (o *Services) Secured() (tls, token, certificate bool) { return o.s.Secured() }
