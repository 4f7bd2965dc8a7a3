package router

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
)

// defaultWait is how long a WaitRun call without a timeout waits. The package grpcapi has the same
// default. earlyBy is how much earlier than its timeout a wait may end.
const (
	defaultWait = 30 * time.Second
	earlyBy     = 20 * time.Millisecond
)

// wait makes the call WaitRun. If the owner of the partition changes, wait continues at the next owner
// for the rest of the timeout.
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

// waitOnce makes one WaitRun call. If the server drains in the meantime, it stops waiting and returns
// the current state of the run.
func (r *Router) waitOnce(ctx context.Context, method string, req *pawlv1.WaitRunRequest) (any, error) {
	in, leave := r.longCalls.enter(ctx)
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

// timeOf returns the timeout of a WaitRun.
func timeOf(in *pawlv1.WaitRunRequest) time.Duration {
	if in.GetTimeout() == nil {
		return defaultWait
	}
	return in.GetTimeout().AsDuration()
}

// remaining returns a WaitRun request with a shorter timeout. gone is the time that has already passed.
func remaining(req any, gone time.Duration) any {
	in := req.(*pawlv1.WaitRunRequest)
	if gone < earlyBy {
		return in
	}
	next := proto.CloneOf(in)
	next.Timeout = durationpb.New(max(0, timeOf(in)-gone))
	return next
}

// timedOut reports whether a response says that WaitRun ended because of its timeout.
func timedOut(resp any) bool {
	switch resp := resp.(type) {
	case *pawlv1.WaitRunResponse:
		return resp.GetTimedOut()
	case codec.Message:
		out := &pawlv1.WaitRunResponse{}
		return proto.Unmarshal(resp, out) == nil && out.GetTimedOut()
	}
	return false
}
