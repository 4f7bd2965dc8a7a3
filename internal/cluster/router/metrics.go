package router

import (
	"context"
	"strings"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Counts counts the outcomes of calls for metrics. Its methods are called often and must not
// block.
type Counts interface {
	// Forwarded is called for each call that was sent to another node, with the method without
	// its first slash, or "http", and the name of the returned status, for example OK, or
	// NOT_STARTED.
	Forwarded(method, outcome string)
	// Retried is called for each retry.
	Retried(method string)
	// NoOwner is called for each call that found no owner in time.
	NoOwner(method string)
}

type uncounted struct{}

func (uncounted) Forwarded(string, string) {}
func (uncounted) Retried(string)           {}
func (uncounted) NoOwner(string)           {}

// httpMethod is the method name in the metrics for requests to agents, whose method is not known.
const httpMethod = "http"

// forwarded counts a call that was sent to another node. If that node answered, a trailer names it
// to the caller.
func (r *Router) forwarded(ctx context.Context, method string, to Peer, err error) {
	r.cfg.Counts.Forwarded(strings.TrimPrefix(method, "/"), outcome(err))
	// A call that was made for a command of a worker's stream has no trailer of its own.
	if of, _ := grpc.Method(ctx); of == method && (err == nil || outcomeOf(err) == final) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(OwnerTrailer, to.Address))
	}
}

func outcome(err error) string {
	if outcomeOf(err) == notStarted {
		return "NOT_STARTED"
	}
	return rpccode.Code(status.Code(err)).String()
}
