package server

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/a2a/client"
	"github.com/pawl-dev/pawl/internal/config"
)

// rogueGRPC is an agent over gRPC that answers messages with the result of send.
type rogueGRPC struct {
	a2apb.UnimplementedA2AServiceServer
	send func() (*a2apb.SendMessageResponse, error)
	auth []string
}

func (g *rogueGRPC) SendMessage(ctx context.Context, _ *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	g.auth = append(g.auth, md.Get("authorization")...)
	return g.send()
}

// listen serves the agent, and returns a remote whose card names it.
func (g *rogueGRPC) listen(t *testing.T) client.Remote {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(server, g)
	go func() { _ = server.Serve(at) }()
	t.Cleanup(server.Stop)
	card, is := laterCard(t)
	is(at.Addr().String(), "")
	return client.Remote{Card: card}
}

// TestRogueGRPC checks over gRPC what TestRogueAnswers checks.
func TestRogueGRPC(t *testing.T) {
	t.Parallel()
	fails := func(code codes.Code, reason string) func() (*a2apb.SendMessageResponse, error) {
		st, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "pawl.dev"})
		if err != nil {
			t.Fatal(err)
		}
		return func() (*a2apb.SendMessageResponse, error) { return nil, st.Err() }
	}
	answerWith := func(task *a2apb.Task) func() (*a2apb.SendMessageResponse, error) {
		return func() (*a2apb.SendMessageResponse, error) {
			return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task}}, nil
		}
	}
	done := &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}
	for _, tt := range []struct {
		name, code string
		send       func() (*a2apb.SendMessageResponse, error)
	}{
		{"unauthenticated", "AGENT_REFUSED", fails(codes.Unauthenticated, "UNAUTHENTICATED")},
		{"not allowed", "AGENT_REFUSED", fails(codes.PermissionDenied, "SCOPE_MISSING")},
		{"bad variables", "AGENT_REFUSED", fails(codes.InvalidArgument, "BAD_VARIABLES")},
		{"no such method", "AGENT_REFUSED", fails(codes.Unimplemented, "")},
		{"busy", "AGENT_UNREACHABLE", fails(codes.ResourceExhausted, "QUEUE_FULL")},
		{"broken", "AGENT_UNREACHABLE", fails(codes.Internal, "")},
		{"10 MB", "AGENT_RESULT_TOO_LARGE", answerWith(&a2apb.Task{Id: strings.Repeat("x", 10<<20), Status: done})},
		{"an unknown state", "AGENT_PROTOCOL", answerWith(&a2apb.Task{Id: "t", Status: &a2apb.TaskStatus{State: 99}})},
		{"no id", "AGENT_PROTOCOL", answerWith(&a2apb.Task{Status: done})},
		{"a part without content", "AGENT_PROTOCOL", answerWith(&a2apb.Task{Id: "t", Status: done, Artifacts: []*a2apb.Artifact{{Parts: []*a2apb.Part{{}}}}})},
		{"nothing", "AGENT_PROTOCOL", func() (*a2apb.SendMessageResponse, error) { return &a2apb.SendMessageResponse{}, nil }},
		{"a task", "", answerWith(&a2apb.Task{Id: "t", Status: done})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &rogueGRPC{send: tt.send}
			got := newDelegator(t, g.listen(t), waitLimit).delegate(`{"message":"go"}`)
			if got.OK != (tt.code == "") || got.Error.Code != tt.code {
				t.Errorf("the step ended with %v, %.300s", got.OK, got.Error.Code+": "+got.Error.Message)
			}
			if tt.code == "" && (len(g.auth) != 1 || g.auth[0] != "Bearer "+operatorToken) {
				t.Errorf("authorisations %v", g.auth)
			}
		})
	}
}

// TestRemotesAreRead: files of tokens and authorities are read once and as a whole, or the error names them.
func TestRemotesAreRead(t *testing.T) {
	t.Parallel()
	file := func(words string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(words), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mode := func(bits os.FileMode) string {
		path := file("words")
		if err := os.Chmod(path, bits); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got, err := readRemotes(map[string]config.Agent{"x": {Card: "https://x/card", TokenFile: file(" word\n"), Allow: []string{"y"}}})
	if err != nil || got["x"].Token != "word" || got["x"].Card != "https://x/card" || len(got["x"].Allow) != 1 || got["x"].CA != nil {
		t.Errorf("read %+v, %v", got, err)
	}
	for field, agent := range map[string]config.Agent{
		"agents[x].token_file": {TokenFile: filepath.Join(t.TempDir(), "none")},
		"file is empty":        {TokenFile: file(" \n")},
		"agents[x].ca":         {CA: file("no certificate")},
		"0666: others":         {CA: mode(0o666)},
		"0662: others":         {Cert: mode(0o662), Key: file("key")},
		"0604: every user":     {Cert: file("certificate"), Key: mode(0o604)},
	} {
		if _, err := readRemotes(map[string]config.Agent{"x": agent}); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
