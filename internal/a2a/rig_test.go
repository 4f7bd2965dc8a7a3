package a2a_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// The principals of a rig with tokens.
const (
	alice      = "alice"
	bob        = "bob"
	carol      = "carol"
	adminToken = "boss"
	hands      = "hands"
	// bridge is another sidecar, which passes on what others answer.
	bridge = "bridge"
	// dave may decide, but not what he started.
	dave = "dave"
)

func secretOf(name string) string { return "secret-of-" + name + "-0123456789" }

// rig is a sidecar that really listens, and a worker that does what the messages
// say.
type rig struct {
	t      testing.TB
	config config.Config
	ready  server.Ready
	// named is the sidecar whose addresses cards name: the one that has the store.
	named   server.Ready
	conn    *grpc.ClientConn
	client  a2apb.A2AServiceClient
	workers *echoWorker
	// tools are what the worker does, by name.
	tools map[string]pawl.ToolFunc
	// tokens: callers have to name themselves.
	tokens bool
	// creds are those of the gRPC port.
	creds grpc.DialOption
	// authority is a PEM file that clients trust, where the rig speaks TLS.
	authority string
	// web is the client of the HTTP port.
	web *http.Client
}

// newRig serves until the test ends. configure may change the configuration.
func newRig(t testing.TB, configure ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, config: config.Default(), workers: newHand(), creds: grpc.WithTransportCredentials(insecure.NewCredentials()), web: http.DefaultClient}
	r.config.Data = filepath.Join(t.TempDir(), "data")
	pgserver.UseInConfig(t, &r.config)
	r.config.Listen, r.config.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	r.config.Packs = []string{"testdata/agents.yaml"}
	r.config.DrainTimeout = 10 * time.Second
	for _, f := range configure {
		f(r)
	}
	r.serve()
	r.conn = r.dial()
	r.client = a2apb.NewA2AServiceClient(r.conn)
	r.work()
	return r
}

// withTokens turns authentication on.
func withTokens(r *rig) {
	r.tokens = true
	var lines []string
	for name, scopes := range map[string]string{
		alice: "runs:write,runs:read,events:external", carol: "runs:write,runs:read,steps:approve", bob: "runs:write,runs:read", adminToken: "admin", hands: "work",
		bridge: "runs:write,runs:read,steps:approve,values:sensitive,tasks:answer-for", dave: "runs:write,runs:read,steps:approve,values:sensitive",
	} {
		lines = append(lines, fmt.Sprintf("%s %s sha256:%x", name, scopes, sha256.Sum256([]byte(secretOf(name)))))
	}
	path := filepath.Join(r.t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.config.TokensFile = path
}

// serve serves the sidecar of the rig; one that stands by has another one beside it, which has
// the store.
func (r *rig) serve() {
	r.t.Helper()
	if pgserver.StandbyWanted() && r.config.PeerListen != "" {
		owner := pgserver.Owner(r.config)
		// Its cards say where it is reached.
		owner.HTTP = r.config.HTTP
		r.named = r.begin(owner)
		r.ready = r.begin(r.config)
		return
	}
	r.ready = r.begin(r.config)
	r.named = r.ready
}

func (r *rig) begin(c config.Config) (ready server.Ready) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var log bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		err := server.Serve(ctx, c, in, &log)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	r.t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				r.t.Errorf("Serve: %v", err)
			}
			if r.t.Failed() {
				r.t.Log(log.String())
			}
		case <-time.After(patience):
			r.t.Error("the sidecar did not end")
		}
	})
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		r.t.Fatalf("the sidecar did not start: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return ready
}

func (r *rig) dial(options ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.ready.GRPC, append([]grpc.DialOption{r.creds}, options...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// work runs the worker until the test ends.
func (r *rig) work() {
	var options []grpc.DialOption
	if r.tokens {
		options = append(options, grpc.WithPerRPCCredentials(output.Bearer(secretOf(hands))))
	}
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: r.dial(options...), ID: "hands", Turns: 64, Retry: 10 * time.Millisecond, Grace: time.Second,
		Prompts: map[string]pawl.TurnFunc{"*": r.workers.turn}, Tools: r.tools, Steps: 4,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		r.workers.letGo()
		select {
		case err := <-ended:
			if err != nil {
				r.t.Errorf("worker: %v", err)
			}
		case <-time.After(patience):
			r.t.Error("the worker did not end")
		}
	})
}

// echoWorker executes turns as the newest message of the user says:
//
//	echo          the parts come back
//	reply TEXT    a message instead of a task
//	delegate TEXT what the painter makes of it comes back
//	pass TEXT     the same of the clerk
//	call TOOL X   a step of a tool with the payload X; its answer comes back, or its error
//	slow TEXT     the same, when the test lets go
//	ask TEXT      a question; what is answered comes back
//	auth TEXT     the same, for an authorisation
//	reject TEXT   the work is refused
//	fail TEXT     the execution fails for good
//	write A B C   pieces of the artifact "log", the last one marked
//	hold          waits until the test lets go; pieces are sent with push
//	go EVENT      moves the run, with artifacts
//	data JSON     the JSON comes back
//	report JSON   the same, and it is written as an artifact
type echoWorker struct {
	mu    sync.Mutex
	free  chan struct{}
	once  sync.Once
	push  chan string
	turns map[string]int
}

func newHand() *echoWorker {
	return &echoWorker{free: make(chan struct{}), push: make(chan string), turns: map[string]int{}}
}

// letGo releases all held turns.
func (h *echoWorker) letGo() { h.once.Do(func() { close(h.free) }) }

func text(s string) *pawlv1.Part { return &pawlv1.Part{Content: &pawlv1.Part_Text{Text: s}} }

func (h *echoWorker) turn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	turn := t.Assignment.GetTurn()
	h.mu.Lock()
	h.turns[turn.GetTurn().GetRunId()]++
	h.mu.Unlock()
	message := lastOfUser(turn.GetMessages())
	word, rest, _ := strings.Cut(textOf(message), " ")
	asked := len(turn.GetMessages()) > 1
	if turn.GetPrompt() == "painter" {
		return pawl.Completion{Output: []*pawlv1.Part{text(turn.GetSystemPrompt())}}, nil
	}
	switch word {
	case "reply":
		return pawl.Completion{Reply: true, Output: []*pawlv1.Part{text(rest)}}, nil
	case "delegate":
		payload, _ := json.Marshal(map[string]string{"message": rest})
		result, err := t.Step(ctx, "", "painter", string(payload))
		return pawl.Completion{Output: []*pawlv1.Part{text(result)}}, err
	case "pass":
		payload, _ := json.Marshal(map[string]string{"message": rest})
		result, err := t.Step(ctx, "", "clerk", string(payload))
		return pawl.Completion{Output: []*pawlv1.Part{text(result)}}, err
	case "call":
		tool, payload, _ := strings.Cut(rest, " ")
		result, err := t.Step(ctx, "", tool, payload)
		if failure, ok := errors.AsType[*pawl.Failure](err); ok {
			result, err = failure.Code+": "+failure.Message, nil
		}
		return pawl.Completion{Output: []*pawlv1.Part{text(result)}}, err
	case "slow":
		select {
		case <-h.free:
		case <-ctx.Done():
		}
		return pawl.Completion{Reply: true, Output: []*pawlv1.Part{text(rest)}}, ctx.Err()
	case "ask":
		return pawl.Completion{Await: pawlv1.Awaiting_AWAITING_INPUT, Output: []*pawlv1.Part{text(rest)}}, nil
	case "auth":
		return pawl.Completion{Await: pawlv1.Awaiting_AWAITING_AUTH, Output: []*pawlv1.Part{text(rest)}}, nil
	case "reject":
		return pawl.Completion{}, &pawl.Failure{Code: "NOT_MINE", Message: rest, Reject: true}
	case "fail":
		return pawl.Completion{}, &pawl.Failure{Code: "BROKEN", Message: rest, Final: true}
	case "write":
		return h.write(ctx, t, strings.Fields(rest))
	case "hold":
		return h.hold(ctx, t)
	case "data":
		return pawl.Completion{Output: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: rest}}}}, nil
	case "report":
		return pawl.Completion{Event: "Submit", Output: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: rest}}}, Artifacts: []*pawlv1.ArtifactWrite{
			{Name: "report", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: rest}}},
		}}, nil
	case "go":
		return pawl.Completion{Event: rest, Output: []*pawlv1.Part{text("went " + rest)}, Artifacts: []*pawlv1.ArtifactWrite{
			{Name: "notes", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "note of " + rest}}},
		}}, nil
	}
	if asked {
		return pawl.Completion{Output: []*pawlv1.Part{text("got " + textOf(message))}}, nil
	}
	return pawl.Completion{Output: message.GetParts()}, nil
}

func (h *echoWorker) write(ctx context.Context, t *pawl.Turn, pieces []string) (pawl.Completion, error) {
	for i, piece := range pieces {
		err := t.Write(ctx, &pawlv1.OutputPiece{
			Id: "log", Name: "Log", Parts: []*pawlv1.Part{text(piece)}, Append: i > 0, Last: i+1 == len(pieces),
		})
		if err != nil {
			return pawl.Completion{}, err
		}
	}
	return pawl.Completion{Output: []*pawlv1.Part{text("wrote")}}, nil
}

// hold writes what the test pushes, until it lets go.
func (h *echoWorker) hold(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	for first := true; ; first = false {
		select {
		case <-h.free:
			return pawl.Completion{Output: []*pawlv1.Part{text("held")}}, nil
		case <-ctx.Done():
			return pawl.Completion{}, ctx.Err()
		case piece := <-h.push:
			err := t.Write(ctx, &pawlv1.OutputPiece{Id: "log", Name: "Log", Parts: []*pawlv1.Part{text(piece)}, Append: !first})
			if err != nil {
				return pawl.Completion{}, err
			}
		}
	}
}

func lastOfUser(messages []*pawlv1.Message) *pawlv1.Message {
	for _, m := range slices.Backward(messages) {
		if m.GetRole() == "user" {
			return m
		}
	}
	return nil
}

func textOf(m *pawlv1.Message) string {
	var texts []string
	for _, p := range m.GetParts() {
		if p.GetText() != "" {
			texts = append(texts, p.GetText())
		}
	}
	return strings.Join(texts, " ")
}

// context is one of a caller, with the version and a deadline; "" has no token.
func (r *rig) context(name string, pairs ...string) context.Context {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	md := metadata.Pairs(append([]string{"a2a-version", "1.0"}, pairs...)...)
	if name != "" && r.tokens {
		md.Set("authorization", "Bearer "+secretOf(name))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// versionContext is a context with nothing but a version, or without one.
func (r *rig) versionContext(version string) context.Context {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	if version == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "a2a-version", version)
}

// message is a request with one text part.
func message(tenant, words string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Tenant: tenant, Message: &a2apb.Message{
		MessageId: "m-" + words, Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}},
	}}
}

// send is a blocking send over gRPC that must be answered with a task.
func (r *rig) send(ctx context.Context, req *a2apb.SendMessageRequest) *a2apb.Task {
	r.t.Helper()
	got, err := r.client.SendMessage(ctx, req)
	if err != nil {
		r.t.Fatalf("SendMessage: %v", err)
	}
	if got.GetTask() == nil {
		r.t.Fatalf("SendMessage answered %v, want a task", got)
	}
	return got.GetTask()
}

// scheme is that of the HTTP port.
func (r *rig) scheme() string {
	if r.config.TLSCert != "" {
		return "https://"
	}
	return "http://"
}

// answer is what came back over HTTP.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// http makes one request; headers are pairs.
func (r *rig) http(verb, path, body string, headers ...string) answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, verb, r.scheme()+r.ready.HTTP+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("A2a-Version", "1.0")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := r.web.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", verb, path, err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", verb, path, err)
	}
	return answer{res.StatusCode, res.Header, content}
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }
