package router

import (
	"context"
	"strings"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Counts counts the outcomes of calls for the metrics. Its methods are called often and must not block.
type Counts interface {
	// Forwarded is called for each call that was sent to another node. method is the method without its
	// first slash, or "http". outcome is the name of the returned status, for example OK, or
	// NOT_STARTED.
	Forwarded(method, outcome string)
	// Retried is called for each retry.
	Retried(method string)
	// NoOwner is called for each call whose partition had no owner for too long.
	NoOwner(method string)
}

type uncounted struct{}

func (uncounted) Forwarded(string, string) {}
func (uncounted) Retried(string)           {}
func (uncounted) NoOwner(string)           {}

// httpMethod is the method name in the metrics for HTTP requests to agents, whose A2A method is not
// known.
const httpMethod = "http"

// forwarded counts a call that was sent to another node. If that node answered, forwarded adds a
// trailer with the address of the node to the answer.
func (r *Router) forwarded(ctx context.Context, method string, to Peer, err error) {
	r.cfg.Counts.Forwarded(strings.TrimPrefix(method, "/"), outcome(err))
	// For a command that a worker sends in its stream, the router makes a call of another method. Such
	// a call has no gRPC answer of its own, so it gets no trailer.
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
