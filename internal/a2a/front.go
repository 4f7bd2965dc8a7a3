package a2a

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Front serves the HTTP bindings on a node that does not own the runs. The function known authenticates the caller of
// a request. Then the handler in the parameter to gets the request, with the context from known. A refused caller
// gets the same answer as from a [Service]. messageBytes is the limit of a request, as in [Config].
func Front(log *slog.Logger, messageBytes int, known func(*http.Request) (context.Context, error), to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public(r) {
			to.ServeHTTP(w, r)
			return
		}
		ctx, err := known(r)
		if err == nil {
			to.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		s := &Service{cfg: Config{Log: log, MaxMessageBytes: messageBytes}, host: rejectingHost{err: err}}
		s.Handler().ServeHTTP(w, r)
	})
}

// public reports whether a request needs no authentication, see [Service.admitCard].
func public(r *http.Request) bool {
	t, _ := targetOf(r.URL.EscapedPath())
	space, _ := validate.SplitTenant(t.tenant)
	return t.rest == cardPath && space == ""
}

// rejectingHost is the host for a request whose caller was refused. Only its method Admit is called.
type rejectingHost struct {
	Host
	err error
}

// Admit implements [Host].
func (s rejectingHost) Admit(*http.Request, string) (context.Context, error) { return nil, s.err }
