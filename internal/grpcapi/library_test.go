package grpcapi

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// TestErrorsOfTheLibrary: what gRPC would refuse by itself, without details, is refused with a
// reason, on unary calls and on each kind of stream.
func TestErrorsOfTheLibrary(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	r := newRig(t, func(c *Config, _ *services.Config) { c.MaxMessageBytes = limit })
	ctx := testContext(t)
	large := strings.Repeat("x", limit)
	stream := func(method string, first any) error {
		s, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err != nil {
			return err
		}
		_ = s.SendMsg(first) // its error is RecvMsg's
		_ = s.CloseSend()
		for err == nil {
			err = s.RecvMsg(&emptypb.Empty{})
		}
		return err
	}
	for name, c := range map[string]struct {
		do     func() error
		code   codes.Code
		reason string
	}{
		"unknown service": {func() error {
			return r.conn.Invoke(ctx, "/pawl.v9.RunService/GetRun", &emptypb.Empty{}, &emptypb.Empty{})
		}, codes.Unimplemented, "METHOD_UNKNOWN"},
		"unknown method": {func() error {
			return r.conn.Invoke(ctx, "/pawl.v1.RunService/NoSuch", &emptypb.Empty{}, &emptypb.Empty{})
		}, codes.Unimplemented, "METHOD_UNKNOWN"},
		"unknown stream": {func() error { return stream("/pawl.v1.RunService/NoSuch", &emptypb.Empty{}) }, codes.Unimplemented, "METHOD_UNKNOWN"},
		"large call": {func() error {
			return r.conn.Invoke(ctx, pawlv1.RunService_GetRun_FullMethodName, &pawlv1.GetRunRequest{RunId: large}, &emptypb.Empty{})
		}, codes.ResourceExhausted, "REQUEST_TOO_LARGE"},
		"large request of a stream of answers": {func() error {
			return stream(pawlv1.RunService_StreamTransitions_FullMethodName, &pawlv1.StreamTransitionsRequest{RunId: large})
		}, codes.ResourceExhausted, "REQUEST_TOO_LARGE"},
		"large message of a worker": {func() error {
			return stream(pawlv1.WorkerService_Work_FullMethodName, &pawlv1.WorkRequest{Namespace: large})
		}, codes.ResourceExhausted, "REQUEST_TOO_LARGE"},
		"a time that is over": {func() error {
			_, err := (&edge{log: slog.New(slog.DiscardHandler), metrics: r.server.edge.metrics}).unary(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) {
				return nil, context.DeadlineExceeded
			})
			return err
		}, codes.DeadlineExceeded, "CALL_ENDED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, c.do(), c.code, c.reason)
		})
	}
}

// TestReplacedWorkerIsLogged: the operator reads which two processes have the same worker_id; a
// process that connects again is no news.
func TestReplacedWorkerIsLogged(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	r, ctx := newRig(t, func(c *Config, _ *services.Config) { c.Log = slog.New(slog.NewTextHandler(&out, nil)) }), testContext(t)
	r.register(ctx)
	as := func(client, instance string) *testWorker {
		reg := registration("w")
		reg.Client, reg.Instance = client, instance
		return r.registerWorker(ctx, reg)
	}
	first := as("first/1", "i1")
	again := as("first/1", "i1")
	wantError(t, first.end(), codes.Aborted, "WORKER_REPLACED")
	if strings.Contains(out.String(), "worker replaced") {
		t.Fatalf("a process that connects again is logged: %s", out.String())
	}
	as("second/1", "i2")
	st := wantError(t, again.end(), codes.Aborted, "WORKER_REPLACED")
	if !strings.Contains(st.Message(), "do not reconnect") {
		t.Errorf("the worker is told %q", st.Message())
	}
	for _, word := range []string{"level=WARN", "worker replaced", "worker_id=w", "principal=anonymous", "namespace=default", "old_client=first/1", "old_instance=i1", "new_client=second/1", "new_instance=i2", "new_address="} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("the log has no %q: %s", word, out.String())
		}
	}
}
