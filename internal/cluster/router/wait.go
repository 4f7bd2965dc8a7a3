package router

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
)

// defaultWait is the default of the edge; earlyBy is how much earlier than its limit a wait may
// end.
const (
	defaultWait = 30 * time.Second
	earlyBy     = 20 * time.Millisecond
)

// wait makes a call of WaitRun, at one owner after the other for as long as it asks for.
func (r *Router) wait(ctx context.Context, method string, req any) (any, error) {
	in, began := req.(*pawlv1.WaitRunRequest), time.Now()
	whole := timeOf(in)
	for next := in; ; {
		resp, err := r.waitOnce(ctx, method, next)
		if err != nil {
			return nil, err
		}
		left := whole - time.Since(began)
		if left <= earlyBy || r.isDraining() || !timedOut(resp) {
			return resp, nil
		}
		next = proto.CloneOf(in)
		next.Timeout = durationpb.New(left)
	}
}

// waitOnce waits until the server drains at the latest, and then returns the present run.
func (r *Router) waitOnce(ctx context.Context, method string, req *pawlv1.WaitRunRequest) (any, error) {
	in, leave := r.lasting.enter(ctx)
	defer leave()
	if !r.isDraining() {
		resp, err := r.call(in, method, req)
		if err == nil || !r.isDraining() || ctx.Err() != nil {
			return resp, err
		}
	}
	now := proto.CloneOf(req)
	now.Timeout = durationpb.New(0)
	return r.call(ctx, method, now)
}

// timeOf returns the length of a wait.
func timeOf(in *pawlv1.WaitRunRequest) time.Duration {
	if in.GetTimeout() == nil {
		return defaultWait
	}
	return in.GetTimeout().AsDuration()
}

// remaining is a wait for the rest of its time.
func remaining(req any, gone time.Duration) any {
	in := req.(*pawlv1.WaitRunRequest)
	if gone < earlyBy {
		return in
	}
	next := proto.CloneOf(in)
	next.Timeout = durationpb.New(max(0, timeOf(in)-gone))
	return next
}

// timedOut: the wait ended before what was waited for.
func timedOut(resp any) bool {
	switch resp := resp.(type) {
	case *pawlv1.WaitRunResponse:
		return resp.GetTimedOut()
	case encoded.Message:
		out := &pawlv1.WaitRunResponse{}
		return proto.Unmarshal(resp, out) == nil && out.GetTimedOut()
	}
	return false
}
