package server

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// teamPack has a lead that delegates to a helper, which asks back once.
const teamPack = `{
  "id": "team", "name": "Team", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "lead": {"id": "lead", "name": "Lead", "version": "1.0.0", "system_template": "Lead.", "tools": ["helper"]},
    "helper": {"id": "helper", "name": "Helper", "version": "1.0.0", "system_template": "Help."}
  },
  "agents": {"entry": "lead", "members": {"lead": {"description": "Leads"}, "helper": {"description": "Helps"}}},
  "workflow": {
    "version": 2, "entry": "work", "engine": {"budget": {"max_wall_time_sec": 600}},
    "states": {"work": {"prompt_task": "lead", "on_event": {"Done": "end"}}, "end": {"prompt_task": "lead", "terminal": true}}
  }
}`

func text(words string) []*pawlv1.Part {
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: words}}}
}

// delegateTwiceTurn delegates twice at once and ends with what came back.
func delegateTwiceTurn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	if t.Assignment.GetTurn().GetTerminal() {
		return pawl.Completion{}, nil
	}
	var results []string
	for _, payload := range []string{`{"message": "easy", "data": [[1, "two"]]}`, `{"message": "hard", "data": [{"n": 1}]}`} {
		result, err := t.Step(ctx, "", "helper", payload)
		if err != nil {
			return pawl.Completion{}, err
		}
		results = append(results, result)
	}
	return pawl.Completion{Event: "Done", Output: text(strings.Join(results, "\n"))}, nil
}

// helper asks back where the message is hard.
func helper(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
	messages := t.Assignment.GetTurn().GetMessages()
	parts := messages[len(messages)-1].GetParts()
	input := parts[0].GetText()
	if len(parts) > 1 {
		input += " " + parts[1].GetJson()
	}
	if strings.HasPrefix(input, "hard") {
		return pawl.Completion{Output: text("how hard?"), Await: pawlv1.Awaiting_AWAITING_INPUT, Usage: &pawlv1.Usage{InputTokens: 1}}, nil
	}
	return pawl.Completion{Output: text("did " + input), Usage: &pawlv1.Usage{InputTokens: 10, OutputTokens: 5, CostMicroUsd: 7, ToolCalls: 1}}, nil
}

// runWorker runs a worker against a sidecar until the test ends.
func runWorker(t *testing.T, s *runningSidecar, id string, prompts map[string]pawl.TurnFunc) pawlv1.RunServiceClient {
	t.Helper()
	return runWorkerIn(t, s, "", id, prompts)
}

// runWorkerIn is runWorker in a namespace, to which the client keeps as well.
func runWorkerIn(t *testing.T, s *runningSidecar, namespace, id string, prompts map[string]pawl.TurnFunc) pawlv1.RunServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(s.ready.GRPC, toNamespace(namespace)...)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: conn, Namespace: namespace, ID: id, Prompts: prompts, Turns: 8, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		conn.Close()
	})
	return pawlv1.NewRunServiceClient(conn)
}

// toNamespace names a namespace in each request of a connection.
func toNamespace(namespace string) []grpc.DialOption {
	name := func(req any) {
		m := req.(proto.Message).ProtoReflect()
		if field := m.Descriptor().Fields().ByName("namespace"); field != nil && namespace != "" {
			m.Set(field, protoreflect.ValueOfString(namespace))
		}
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
			name(req)
			return call(ctx, method, req, reply, conn, options...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, conn, method, options...)
			return namingStream{stream, name}, err
		}),
	}
}

// namingStream names a namespace in each message.
type namingStream struct {
	grpc.ClientStream
	name func(any)
}

// SendMsg implements grpc.ClientStream.
func (n namingStream) SendMsg(m any) error {
	n.name(m)
	return n.ClientStream.SendMsg(m)
}

// register takes the pack of the tests in a namespace besides the default one.
func register(t *testing.T, s *runningSidecar, namespace string) {
	t.Helper()
	if namespace == "" {
		return
	}
	packs := pawlv1.NewPackServiceClient(dial(t, s.ready.GRPC))
	if _, err := packs.RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Namespace: namespace, Content: []byte(teamPack)}); err != nil {
		t.Fatal(err)
	}
}

// serveToEnd serves until the test ends, and waits for the end: its directory is
// removed then.
func serveToEnd(t *testing.T, c config.Config) *runningSidecar {
	t.Helper()
	s := serve(t, c)
	t.Cleanup(func() {
		s.stop()
		if err := <-s.ended; err != nil {
			t.Errorf("the sidecar ended with %v", err)
		}
	})
	return s
}

func packAt(t *testing.T) string {
	t.Helper()
	return packWith(t, teamPack)
}

// TestDelegation: the same run with the helper as a member of the same sidecar, and as an
// agent of another one over each binding, in the default namespace and in another one. An
// address that was given to the default one is none for the other.
func TestDelegation(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"", "red"} {
		for _, where := range []string{"local", "GRPC", "JSONRPC", "HTTP+JSON"} {
			t.Run(where+" "+namespace, func(t *testing.T) {
				t.Parallel()
				delegateTo(t, where, namespace)
			})
		}
	}
}

func delegateTo(t *testing.T, where, namespace string) {
	t.Helper()
	c := settings(t)
	c.Packs, c.AllowTools, c.Namespaces = []string{packAt(t)}, []string{"*"}, []string{"red"}
	if where != "local" {
		remote := settings(t)
		remote.Packs, remote.HTTP, remote.Namespaces = c.Packs, "127.0.0.1:0", c.Namespaces
		b := serveToEnd(t, remote)
		register(t, b, namespace)
		runWorkerIn(t, b, namespace, "far", map[string]pawl.TurnFunc{"helper": helper})
		c.Agents = map[string]config.Agent{validate.JoinTenant(namespace, "helper"): {Card: cardOf(t, b.ready.HTTP, validate.JoinTenant(namespace, "team/helper"), where)}}
	}
	if namespace != "" {
		// The address and the credentials of another namespace's agent are never used.
		if c.Agents == nil {
			c.Agents = map[string]config.Agent{}
		}
		c.Agents["team/helper"] = config.Agent{Card: "http://127.0.0.1:9/nobody"}
	}
	a := serveToEnd(t, c)
	register(t, a, namespace)
	prompts := map[string]pawl.TurnFunc{"lead": delegateTwiceTurn}
	if where == "local" {
		prompts["helper"] = helper
	}
	followDelegation(t, runWorkerIn(t, a, namespace, "near", prompts), where == "local")
}

// cardOf serves an agent's card with only one of its interfaces.
func cardOf(t *testing.T, addr, agent, binding string) string {
	t.Helper()
	card := fetchCard(t, "http://"+addr+"/a2a/"+agent+"/.well-known/agent-card.json")
	var remaining []any
	for _, face := range card["supportedInterfaces"].([]any) {
		if face.(map[string]any)["protocolBinding"] == binding {
			remaining = append(remaining, face)
		}
	}
	if len(remaining) == 0 {
		t.Fatalf("the card has no interface %s: %v", binding, card["supportedInterfaces"])
	}
	card["supportedInterfaces"] = remaining
	raw, err := json.Marshal(card)
	if err != nil {
		t.Fatal(err)
	}
	return serveCard(t, raw)
}

// followDelegation starts a run, answers the helper's question, and reads the end.
func followDelegation(t *testing.T, runs pawlv1.RunServiceClient, local bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "team", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	run := started.GetRun().GetRunId()
	asking := untilAsking(ctx, t, runs, run)
	if !strings.Contains(asking.GetRemote().String(), "AWAITING_INPUT") || (asking.GetRemote().GetCardUrl() == "") != local {
		t.Fatalf("asking %v", asking)
	}
	if _, err := runs.SendInput(ctx, &pawlv1.SendInputRequest{RunId: run, Step: asking.GetStep(), Parts: text("very")}); err != nil {
		t.Fatal(err)
	}
	ended, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run})
	if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("ended %v, %v", ended, err)
	}
	// Two delegations; each did what the helper says that it took, the second a turn more.
	if got := ended.GetRun(); got.GetTokens() != 31 || got.GetCostMicroUsd() != 14 || got.GetToolCalls() != 4 {
		t.Errorf("settled %d tokens, %d micro-dollars, %d calls", got.GetTokens(), got.GetCostMicroUsd(), got.GetToolCalls())
	}
	list, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED}})
	if err != nil || len(list.GetRecords()) != 2 {
		t.Fatalf("answers %v, %v", list, err)
	}
	for i, want := range []string{`did easy [1,\"two\"]`, "did very"} {
		got := list.GetRecords()[i].GetStepResolved()
		if !got.GetOk() || !strings.Contains(got.GetResultJson(), want) {
			t.Errorf("answer %d: %v", i+1, got)
		}
	}
	if children, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{ParentRunId: run}}); err != nil || local != (len(children.GetRuns()) == 2) {
		t.Errorf("children %v, %v", children, err)
	}
}

// untilAsking watches a run until a step of it asks.
func untilAsking(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run string) *pawlv1.Step {
	t.Helper()
	stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: run, Follow: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DELEGATED, pawlv1.RecordKind_RECORD_KIND_ENDED},
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		got, err := stream.Recv()
		if err != nil {
			t.Fatalf("no question came: %v", err)
		}
		if got.GetRecord().GetEnded() != nil {
			t.Fatalf("the run ended before the question: %v", got.GetRecord())
		}
		news := got.GetRecord().GetStepDelegated()
		if news.GetRemote().GetAwaiting() == pawlv1.Awaiting_AWAITING_UNSPECIFIED {
			continue
		}
		if news.GetQuestion()[0].GetText() != "how hard?" {
			t.Fatalf("question %v", news)
		}
		return &pawlv1.Step{Step: news.GetStep(), Remote: news.GetRemote()}
	}
}
