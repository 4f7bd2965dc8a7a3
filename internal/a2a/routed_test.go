package a2a_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// principalRouter is a router that passes only the principal of a caller to its services, as if they
// were in another process.
type principalRouter struct{ services *grpcapi.Services }

func (e *principalRouter) principalContext(ctx context.Context) context.Context {
	return auth.WithCaller(ctx, &auth.Caller{Principal: auth.CallerOf(ctx).Principal})
}

// Unary implements [grpcapi.Router].
func (e *principalRouter) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	return e.services.Call(e.principalContext(ctx), info.FullMethod, req)
}

// Stream implements [grpcapi.Router].
func (e *principalRouter) Stream(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	return e.services.Stream(info.FullMethod, &moved{stream, e.principalContext(stream.Context())})
}

type moved struct {
	grpc.ServerStream
	ctx context.Context
}

func (m *moved) Context() context.Context { return m.ctx }

// ServeHTTP implements [grpcapi.Router].
func (e *principalRouter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := r.Clone(e.principalContext(r.Context()))
	in.Header.Del("Authorization")
	e.services.ServeHTTP(w, in)
}

// edge is a server without a runtime, and the services of a runtime that it received later.
type edge struct {
	server   *grpcapi.Server
	services *grpcapi.Services
	url      string
	conn     *grpc.ClientConn
}

func newEdge(t *testing.T) *edge { return newPatientEdge(t, 0) }

// newPatientEdge returns an edge whose agents wait at most for the time grace before they answer with a task.
func newPatientEdge(t *testing.T, grace time.Duration) *edge {
	t.Helper()
	rooms, err := services.New(services.Config{Config: runtime.Config{Store: testkit.StoreFor(t), Clock: testkit.NewClock(), IDs: &testkit.IDs{}, AllowTools: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	router := &principalRouter{}
	conf := grpcapi.Config{Router: router, HTTP: "127.0.0.1:0", Plugin: func(s *grpcapi.Server) (grpcapi.Plugin, error) {
		return grpcapi.Plugin{
			Desc: &a2apb.A2AService_ServiceDesc, Impl: a2apb.UnimplementedA2AServiceServer{}, Matches: a2a.MatchesPath,
			HTTP: a2a.Front(slog.New(slog.DiscardHandler), 4<<20, s.Known, s.ForwardingHandler()),
		}, nil
	}}
	for name, scopes := range map[string]runtime.Scopes{alice: runtime.ScopeRunsWrite | runtime.ScopeRunsRead, hands: runtime.ScopeWork, adminToken: runtime.ScopeAdmin} {
		conf.Tokens = append(conf.Tokens, auth.Token{Principal: name, Secret: secretOf(name), Scopes: scopes})
	}
	e := &edge{}
	if e.server, err = grpcapi.New(conf); err != nil {
		t.Fatal(err)
	}
	e.services, err = e.server.Services(grpcapi.ServiceConfig{Runtime: rooms, Plugin: func(host *grpcapi.Services) (grpcapi.Plugin, error) {
		service, err := a2a.New(a2a.Config{Engine: rooms, ReplyGrace: grace}, host)
		if err != nil {
			return grpcapi.Plugin{}, err
		}
		return grpcapi.Plugin{Desc: &a2apb.A2AService_ServiceDesc, Impl: service.GRPC(), HTTP: service.Handler(), Matches: a2a.MatchesPath}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	router.services, e.url = e.services, "http://"+e.server.HTTPAddr()
	e.serve(t, rooms)
	return e
}

func (e *edge) serve(t *testing.T, rooms *services.Runtime) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- e.server.Serve() }()
	var err error
	if e.conn, err = e.server.Dial(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		e.services.End()
		if err := e.server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := rooms.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// ask sends a request over HTTP and returns the status and the body.
func (e *edge) ask(t *testing.T, as, method, path, body string) (int, string) {
	t.Helper()
	resp := e.open(t, as, method, path, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (e *edge) open(t *testing.T, as, method, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2a-Version", "1.0")
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+secretOf(as))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

const greeting = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]},"configuration":{"returnImmediately":true}}`

// TestAgentsOfAHouseThatCame: the server answers with cards, JSON-RPC, REST and gRPC for agents of a
// runtime that is not its own. That runtime never receives the tokens.
func TestAgentsOfAHouseThatCame(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	agent := e.register(t)
	rpc := `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":` + greeting + `}`
	tests := []struct {
		name, as, method, path, body string
		status                       int
		has                          string
	}{
		{"a card is everybody's", "", "GET", agent + "/.well-known/agent-card.json", "", 200, `"skills"`},
		{"a card of a namespace is not", "", "GET", "/a2a/red:crew/writer/.well-known/agent-card.json", "", 401, "TOKEN_MISSING"},
		{"JSON-RPC", alice, "POST", agent, rpc, 200, `"result"`},
		{"REST", alice, "POST", agent + "/message:send", strings.Replace(greeting, `"m"`, `"n"`, 1), 200, `"task"`},
		{"tasks", alice, "GET", agent + "/tasks", "", 200, `"tasks"`},
		{"nobody, by JSON-RPC", "", "POST", agent, rpc, 401, `"id":7`},
		{"a wrong token, by JSON-RPC", "nobody", "POST", agent, rpc, 401, "TOKEN_UNKNOWN"},
		{"nobody, by REST", "", "GET", agent + "/tasks", "", 401, "TOKEN_MISSING"},
		{"no scope, by REST", hands, "GET", agent + "/tasks", "", 403, "SCOPE_MISSING"},
		{"no scope, by JSON-RPC", hands, "POST", agent, rpc, 403, "SCOPE_MISSING"},
	}
	for _, tt := range tests {
		if code, body := e.ask(t, tt.as, tt.method, tt.path, tt.body); code != tt.status || !strings.Contains(body, tt.has) {
			t.Errorf("%s: %d %s", tt.name, code, body)
		}
	}
	client := a2apb.NewA2AServiceClient(e.conn)
	tenant := strings.TrimPrefix(agent, "/a2a/")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0")
	if _, err := client.ListTasks(ctx, &a2apb.ListTasksRequest{Tenant: tenant}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody, by gRPC: %v", err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secretOf(alice))
	tasks, err := client.ListTasks(ctx, &a2apb.ListTasksRequest{Tenant: tenant})
	if err != nil || len(tasks.GetTasks()) != 2 {
		t.Errorf("%v, %v", tasks, err)
	}
}

// TestStreamsOfAgentsEnd: a stream ends when its services end, and when the caller loses the right to it.
func TestStreamsOfAgentsEnd(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(*edge) error{
		"DRAINING": func(e *edge) error { e.services.End(); return nil },
		"TOKEN_REVOKED": func(e *edge) error {
			return e.server.SetRights(grpcapi.Rights{Tokens: []auth.Token{{Principal: adminToken, Secret: secretOf(adminToken), Scopes: runtime.ScopeAdmin}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t)
			resp := e.open(t, alice, "POST", e.register(t)+"/message:stream", greeting)
			defer resp.Body.Close()
			first := make([]byte, 6)
			if _, err := io.ReadFull(resp.Body, first); err != nil || !bytes.Contains(first, []byte(":")) {
				t.Fatalf("%d %q, %v", resp.StatusCode, first, err)
			}
			if err := over(e); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Contains(rest, []byte(name)) {
				t.Errorf("%s, %v", rest, err)
			}
		})
	}
}

// TestAHouseThatEndsHasTakenTheMessage: the services end while they hold a message. On every binding, a
// sender without an id receives the current task, since a repeat would be another message. A sender with an
// id receives an error that allows a repeat.
func TestAHouseThatEndsHasTakenTheMessage(t *testing.T) {
	t.Parallel()
	blocking := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	overHTTP := func(path string) func(*testing.T, *edge, string) string {
		return func(t *testing.T, e *edge, agent string) string {
			_, body := e.ask(t, alice, "POST", agent+path, blocking)
			return body
		}
	}
	overGRPC := func(id string) func(*testing.T, *edge, string) string {
		return func(t *testing.T, e *edge, agent string) string {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0", "authorization", "Bearer "+secretOf(alice))
			if id != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", id)
			}
			got, err := a2apb.NewA2AServiceClient(e.conn).SendMessage(ctx, &a2apb.SendMessageRequest{
				Tenant: strings.TrimPrefix(agent, "/a2a/"), Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}}},
			})
			if err != nil {
				return err.Error()
			}
			return got.GetTask().GetStatus().GetState().String()
		}
	}
	for name, one := range map[string]struct {
		send func(*testing.T, *edge, string) string
		want []string
	}{
		"REST":             {overHTTP("/message:send"), []string{"TASK_STATE_SUBMITTED"}},
		"REST, streaming":  {overHTTP("/message:stream"), []string{"TASK_STATE_SUBMITTED", "DRAINING"}},
		"gRPC":             {overGRPC(""), []string{"TASK_STATE_SUBMITTED"}},
		"gRPC, with an id": {overGRPC("k"), []string{"shutting down"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newPatientEdge(t, time.Hour)
			agent, answers := e.register(t), make(chan string, 1)
			go func() {
				defer close(answers)
				answers <- one.send(t, e, agent)
			}()
			for {
				if _, body := e.ask(t, alice, "GET", agent+"/tasks", ""); strings.Contains(body, `"status"`) {
					break
				}
			}
			e.services.End()
			for got := <-answers; len(one.want) > 0; one.want = one.want[1:] {
				if !strings.Contains(got, one.want[0]) {
					t.Errorf("no %s: %s", one.want[0], got)
				}
			}
		})
	}
}

// register registers the agents of a pack and returns the path of one of them.
func (e *edge) register(t *testing.T) string {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secretOf(adminToken))
	content, err := os.ReadFile("testdata/agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pawlv1.NewPackServiceClient(e.conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: content}); err != nil {
		t.Fatal(err)
	}
	return "/a2a/crew/writer"
}
