package router

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// idempotencyKey is the HTTP header with the id by which the A2A server recognizes a repeated message.
const idempotencyKey = "Idempotency-Key"

// ownerHeader is the HTTP header with the address of the node that answered, as [OwnerTrailer] is for
// gRPC.
const ownerHeader = "Pawl-Owner"

// ServeHTTP forwards a request for an A2A agent to the node that owns the partition of the agent. If
// the caller is authenticated, the context of the request contains the caller. The caller's own headers
// that begin with Pawl- are removed.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx, leave := r.longCalls.enter(req.Context())
	defer leave()
	if r.isDraining() {
		problem(w, draining())
		return
	}
	body, err := r.body(req)
	if err != nil {
		problem(w, err)
		return
	}
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead
	part, err := r.partOfAgent(ctx, tenant(r.cfg.Tenant(req, body.content)))
	if err != nil {
		problem(w, err)
		return
	}
	t := r.newRetrier(ctx, part, httpMethod)
	for t.next() {
		var begun bool
		begun, err = r.serveOnce(ctx, part, w, req, body)
		if begun {
			return
		}
		if body.consumed() && outcomeOf(err) != final {
			err = broken()
		}
		t.failed(err, reads || req.Header.Get(idempotencyKey) != "")
	}
	if !reads && t.cancelledByDrain(err) {
		err = newCommitUnknown()
	} else {
		err = t.toClientError(err, !reads)
	}
	problem(w, err)
}

// serveOnce makes one attempt of a request, at the node that owns the partition as far as this node
// knows. begun reports whether w has an answer, so that the request is not repeated.
func (r *Router) serveOnce(ctx context.Context, part int32, w http.ResponseWriter, req *http.Request, body *body) (begun bool, err error) {
	out := req.Clone(ctx)
	for name := range out.Header {
		if strings.HasPrefix(name, "Pawl-") {
			delete(out.Header, name)
		}
	}
	here := r.cfg.Slots.At(part).serve(ctx, w, func(ctx context.Context) *http.Request {
		out.Body = body.newReader()
		return out.WithContext(ctx)
	})
	if here {
		return true, nil
	}
	to, ok := r.cfg.Directory.Owner(part)
	if !ok {
		return false, NotOwner()
	}
	out.Body = body.newReader()
	err = r.proxy(w, out, to, part)
	r.cfg.Counts.Forwarded(httpMethod, outcome(err))
	return err == nil, err
}

// proxy sends a request to another node and streams the answer back. If it returns an error, no byte of
// an answer was written.
func (r *Router) proxy(w http.ResponseWriter, req *http.Request, to Peer, part int32) (err error) {
	proxy := &httputil.ReverseProxy{
		// The error log is not needed, because the caller itself sees that an answer was interrupted.
		Transport: r.cfg.Peers.Transport(to, part), FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: to.Address})
			p.Out.Host = p.In.Host
		},
		ModifyResponse: func(resp *http.Response) error {
			if reason := resp.Header.Get(RefusedHeader); reason != "" {
				return NotOwner()
			}
			resp.Header.Set(ownerHeader, to.Address)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, cause error) { err = cause },
	}
	proxy.ServeHTTP(w, req)
	if err != nil && outcomeOf(err) == final && req.Context().Err() == nil {
		return &cut{err}
	}
	return err
}

// cut is the error of an HTTP request that was sent to another node if the connection ended before the
// answer.
type cut struct{ cause error }

func (c *cut) Error() string { return c.cause.Error() }
func (c *cut) Unwrap() error { return c.cause }

// body is the body of an HTTP request. It keeps at most BodyBytes + 1 bytes in memory. A body of at most
// BodyBytes bytes can be sent again.
type body struct {
	content []byte
	// rest is the part of the body that did not fit into content. It is nil if everything fits. used
	// reports whether the body was sent at least once.
	rest io.ReadCloser
	used bool
}

func (r *Router) body(req *http.Request) (*body, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return &body{}, nil
	}
	kept, err := io.ReadAll(io.LimitReader(req.Body, r.cfg.BodyBytes+1))
	if err != nil {
		return nil, err
	}
	b := &body{content: kept}
	if int64(len(kept)) > r.cfg.BodyBytes {
		b.rest = req.Body
	}
	return b, nil
}

// consumed reports whether the body was sent once and is too large to be sent again.
func (b *body) consumed() bool { return b.used && b.rest != nil }

func (b *body) newReader() io.ReadCloser {
	b.used = true
	switch {
	case b.rest != nil:
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(b.content), b.rest), b.rest}
	case len(b.content) == 0:
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(b.content))
}

// problem writes an error as the JSON answer of a request that got no answer from a partition.
func problem(w http.ResponseWriter, err error) {
	st, withheld := apierror.Status(err)
	code := http.StatusServiceUnavailable
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		code, st = http.StatusRequestEntityTooLarge, tooLarge(over.Limit)
	} else if withheld != nil || errors.Is(err, context.Canceled) {
		// The request body could not be read, usually because the caller has disconnected.
		code, st = http.StatusBadRequest, unreadable()
	} else if errors.Is(err, context.DeadlineExceeded) {
		code = http.StatusGatewayTimeout
	} else if st.Code() == codes.NotFound {
		code = http.StatusNotFound
	} else {
		w.Header().Set("Retry-After", "1")
	}
	body, _ := protojson.Marshal(st.Proto())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	//nolint:gosec,nolintlint // JSON, said to be JSON, with nosniff: no browser takes it for a page.
	_, _ = w.Write(append(append([]byte(`{"error":`), body...), '}'))
}

func tooLarge(limit int64) *status.Status {
	return apierror.Refused(&machine.Error{Code: machine.CodeInvalidArgument, Reason: "MESSAGE_TOO_LARGE", Field: "(body)", Limit: limit, Message: "too many bytes"})
}

func unreadable() *status.Status {
	return apierror.Refused(&machine.Error{Code: machine.CodeInvalidArgument, Reason: apierror.InvalidRequest, Field: "(body)", Message: "could not be read"})
}
