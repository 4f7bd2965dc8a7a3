package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// eachMethod walks every RPC of pawl.v1.
func eachMethod(f func(method protoreflect.MethodDescriptor, path string)) {
	for _, service := range apierror.Services {
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			f(m, fmt.Sprintf("/%s/%s", service.FullName(), m.Name()))
		}
	}
}

// call makes a call with a message of the method's type, streaming or not.
func call(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, path string, request any, options ...grpc.CallOption) error {
	response := dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingServer() {
		return conn.Invoke(ctx, path, request, response, options...)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path, options...)
	if err != nil {
		return err
	}
	// EOF: the stream is over already, RecvMsg says why.
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		if err := stream.RecvMsg(response); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestScopes calls every RPC with every scope, without a token and with a wrong one. The scopes that may call
// it are those that its comment promises.
func TestScopes(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	promises := promisedScopes(t)
	eachMethod(func(m protoreflect.MethodDescriptor, path string) {
		allowed := promises[path]
		for _, scope := range auth.EveryScope {
			err := call(withToken(ctx, scope.String()), r.conn, m, path, dynamicpb.NewMessage(m.Input()))
			want := scope == runtime.ScopeAdmin || allowed == 0 || allowed.Any(scope)
			info, _ := detail[*errdetails.ErrorInfo](status.Convert(err))
			if denied := status.Code(err) == codes.PermissionDenied && info.GetReason() == "SCOPE_MISSING"; denied == want {
				t.Errorf("%s with %s: %v", m.Name(), scope, err)
			}
		}
		err := call(ctx, r.conn, m, path, dynamicpb.NewMessage(m.Input()))
		wantError(t, err, codes.Unauthenticated, "TOKEN_MISSING")
		err = call(withToken(ctx, "nobody"), r.conn, m, path, dynamicpb.NewMessage(m.Input()))
		wantError(t, err, codes.Unauthenticated, "TOKEN_UNKNOWN")
	})
}

func TestAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	for header, want := range map[string]codes.Code{
		"Bearer " + secretOf("admin"):       codes.OK,
		"bearer " + secretOf("admin"):       codes.OK,
		"Basic " + secretOf("admin"):        codes.Unauthenticated,
		secretOf("admin"):                   codes.Unauthenticated,
		"Bearer":                            codes.Unauthenticated,
		"Bearer " + secretOf("admin") + " ": codes.OK,
		"Bearer " + secretOf("admin")[1:]:   codes.Unauthenticated,
	} {
		// Spaces at the end of a header are no part of it.
		_, err := r.runs.ListRuns(metadata.AppendToOutgoingContext(ctx, "authorization", strings.TrimRight(header, " ")), &pawlv1.ListRunsRequest{})
		if status.Code(err) != want {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// TestWithoutTokens: if the server has no tokens, every caller is anonymous and has every scope but admin.
func TestWithoutTokens(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	req := startRequest()
	req.Entry = &pawlv1.StartRunRequest_State{State: "desk"}
	_, err := r.runs.StartRun(ctx, req)
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	eachMethod(func(m protoreflect.MethodDescriptor, path string) {
		if err := call(ctx, r.conn, m, path, dynamicpb.NewMessage(m.Input())); status.Code(err) == codes.PermissionDenied {
			t.Errorf("%s: %v", m.Name(), err)
		}
	})
}

func TestAdminEntersInTheMiddle(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	r.register(withToken(ctx, "driver"))
	req := startRequest()
	req.Entry = &pawlv1.StartRunRequest_State{State: "desk"}
	_, err := r.runs.StartRun(withToken(ctx, "driver"), req)
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	started, err := r.runs.StartRun(withToken(ctx, "admin"), req)
	if err != nil || !started.GetRun().GetEntryOverride() || started.GetRecord().GetPrincipal() != "admin" {
		t.Fatalf("StartRun %v, %v", started, err)
	}
}

// TestExternalStates: only a principal with the scope events:external moves a run out of an external state.
func TestExternalStates(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	turn := r.start(withToken(ctx, "driver")).GetTurn()
	r.emit(withToken(ctx, "driver"), turn, "Ask")
	approve := &pawlv1.EmitEventRequest{RunId: turn.GetRunId(), Event: "Approved"}
	_, err := r.runs.EmitEvent(withToken(ctx, "driver"), approve)
	wantError(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	approved, err := r.runs.EmitEvent(withToken(ctx, "events:external"), approve)
	if err != nil || approved.GetState() != "done" || approved.GetTransition().GetPrincipal() != "events:external" {
		t.Fatalf("EmitEvent %v, %v", approved, err)
	}
	// What such a principal may not read is not in its answers.
	if _, err := r.runs.GetRun(withToken(ctx, "events:external"), &pawlv1.GetRunRequest{RunId: turn.GetRunId()}); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("GetRun: %v", err)
	}
}

// TestPublicMethods: a probe has no token; reflection takes one.
func TestPublicMethods(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	if _, err := healthpb.NewHealthClient(r.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context) error {
		stream, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(ctx)
		if err != nil {
			return err
		}
		request := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		got, err := stream.Recv()
		if err == nil && !strings.Contains(got.String(), "pawl.v1.RunService") {
			err = fmt.Errorf("services %v", got)
		}
		return err
	}
	wantError(t, list(ctx), codes.Unauthenticated, "TOKEN_MISSING")
	if err := list(withToken(ctx, "work")); err != nil {
		t.Fatal(err)
	}
}
