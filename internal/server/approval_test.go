package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/output"
)

// The principals of a bank. sidecarA is how one sidecar shows itself to the other.
const (
	clerk    = "clerk"    // runs:write
	approver = "approver" // runs:write and events:external
	chief    = "chief"    // admin
	sidecarA = "sidecar-a"
)

var orchestrations = []string{"internal", "external", "hybrid"}

// bankPack has a teller for each orchestration, whose payment waits for a word from
// outside; desk_X asks teller_X, and lobby_X asks desk_X.
func bankPack() string {
	var prompts, members, states []string
	for _, o := range orchestrations {
		for _, p := range [][2]string{{"teller_" + o, ""}, {"desk_" + o, `"teller_` + o + `"`}, {"lobby_" + o, `"desk_` + o + `"`}} {
			prompts = append(prompts, fmt.Sprintf(`%q: {"id": %[1]q, "name": %[1]q, "version": "1.0.0", "system_template": "Work.", "tools": [%[2]s]}`, p[0], p[1]))
			member := "{}"
			if p[1] == "" {
				member = fmt.Sprintf(`{"state": "approval_%s"}`, o)
			}
			members = append(members, fmt.Sprintf(`%q: %s`, p[0], member))
		}
		states = append(states, fmt.Sprintf(`"approval_%s": {"prompt_task": "teller_%[1]s", "orchestration": %[1]q, "on_event": {"Pay": "paid"}}`, o))
	}
	return fmt.Sprintf(`{
  "id": "bank", "name": "Bank", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {%s}, "agents": {"entry": "lobby_internal", "members": {%s}},
  "workflow": {"version": 2, "entry": "approval_external", "engine": {"budget": {"max_wall_time_sec": 600}},
    "states": {%s, "paid": {"prompt_task": "teller_internal", "terminal": true}}}
}`, strings.Join(prompts, ", "), strings.Join(members, ", "), strings.Join(states, ", "))
}

// asks passes on to the only tool of its prompt, and ends with what came back.
func asks(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	result, err := t.Step(ctx, "", t.Assignment.GetTurn().GetTools()[0].GetName(), `{"message": "100 EUR"}`)
	return pawl.Completion{Output: text(result)}, err
}

// pays asks once, and pays when it is told anything.
func pays(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
	switch turn := t.Assignment.GetTurn(); {
	case turn.GetTerminal():
		return pawl.Completion{Output: text("paid")}, nil
	case len(turn.GetMessages()) < 2:
		return pawl.Completion{Output: text("pay?"), Await: pawlv1.Awaiting_AWAITING_INPUT}, nil
	}
	return pawl.Completion{Event: "Pay", Output: text("paying")}, nil
}

func secretFor(name string) string { return "secret-of-" + name + "-0123456789" }

// tokens writes a token file: NAME SCOPES pairs.
func tokens(t *testing.T, pairs ...string) string {
	t.Helper()
	var lines []string
	for i := 0; i < len(pairs); i += 2 {
		lines = append(lines, pairs[i]+" "+pairs[i+1]+" "+auth.Digested(secretFor(pairs[i])))
	}
	return writeFile(t, "tokens", strings.Join(lines, "\n"))
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// as is a principal's client.
func as(t *testing.T, s *serving, name string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(output.Bearer(secretFor(name))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func workAs(t *testing.T, s *serving, id string, prompts map[string]pawl.TurnFunc) {
	t.Helper()
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: as(t, s, "hands"), ID: id, Prompts: prompts, Turns: 32, Grace: time.Second, OnError: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
}

// bank is one sidecar, or two: then the tellers live at the second.
type bank struct {
	t    *testing.T
	ctx  context.Context
	near *serving
	far  *serving
	// first is whom runs are started with: "desk" or "lobby".
	first string
	// via is how the far sidecar names what the near one vouches for.
	via string
}

// newBank opens one. binding "" keeps the tellers at home; credential are the scopes
// of the near sidecar at the far one.
func newBank(t *testing.T, first, binding, credential string) *bank {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	b := &bank{t: t, ctx: ctx, first: first}
	tellers, askers := map[string]pawl.TurnFunc{}, map[string]pawl.TurnFunc{}
	for _, o := range orchestrations {
		tellers["teller_"+o], askers["desk_"+o], askers["lobby_"+o] = pays, asks, asks
	}
	c := settings(t)
	c.Packs, c.AllowTools = []string{packWith(t, bankPack())}, []string{"*"}
	c.TokensFile = tokens(t, clerk, "runs:write,runs:read", approver, "runs:write,runs:read,events:external", chief, "admin", "hands", "work")
	if binding == "" {
		b.near = serveToEnd(t, c)
		workAs(t, b.near, "tellers", tellers)
	} else {
		far := settings(t)
		far.Packs, far.HTTP = c.Packs, "127.0.0.1:0"
		far.TokensFile = tokens(t, sidecarA, credential, "hands", "work", "auditor", "runs:read")
		b.far, b.via = serveToEnd(t, far), sidecarA+">"
		workAs(t, b.far, "tellers", tellers)
		c.Agents = map[string]config.Agent{}
		for _, o := range orchestrations {
			c.Agents["teller_"+o] = config.Agent{
				Card: cardOf(t, b.far.ready.HTTP, "bank/teller_"+o, binding), TokenFile: writeFile(t, "token", secretFor(sidecarA)),
			}
		}
		b.near = serveToEnd(t, c)
	}
	workAs(t, b.near, "askers", askers)
	return b
}

func (b *bank) runs(name string) pawlv1.RunServiceClient {
	return pawlv1.NewRunServiceClient(as(b.t, b.near, name))
}

// told are the kinds of records that these tests look at.
var told = []pawlv1.RecordKind{
	pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_INPUT_RECEIVED,
	pawlv1.RecordKind_RECORD_KIND_STEP_DELEGATED, pawlv1.RecordKind_RECORD_KIND_ENDED,
}

// question waits for the next question of a run behind a record; nil = the run ended.
func (b *bank) question(t *testing.T, run string, after uint64) (*pawlv1.StepDelegated, uint64) {
	t.Helper()
	stream, err := b.runs(chief).StreamTransitions(b.ctx, &pawlv1.StreamTransitionsRequest{RunId: run, AfterSeq: after, Follow: true, Kinds: told})
	if err != nil {
		t.Fatal(err)
	}
	for {
		got, err := stream.Recv()
		if err != nil {
			t.Fatalf("neither a question nor the end came: %v", err)
		}
		if news := got.GetRecord().GetStepDelegated(); news.GetRemote().GetAwaiting() != pawlv1.Awaiting_AWAITING_UNSPECIFIED {
			return news, got.GetRecord().GetSeq()
		}
		if got.GetRecord().GetEnded() != nil {
			return nil, got.GetRecord().GetSeq()
		}
	}
}

// leaf reads the records of the run that was asked last on the way down.
func (b *bank) leaf(t *testing.T, run string) []*pawlv1.Record {
	t.Helper()
	runs := b.runs(chief)
	for {
		list, err := runs.ListTransitions(b.ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageSize: 1000, Kinds: told})
		if status.Code(err) == codes.NotFound && b.far != nil {
			runs = pawlv1.NewRunServiceClient(as(t, b.far, "auditor"))
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		next := ""
		for _, rec := range list.GetRecords() {
			if id := rec.GetStepDelegated().GetRemote().GetTaskId(); id != "" {
				next = id
			}
		}
		if next == "" {
			return list.GetRecords()
		}
		run = next
	}
}

// paidBy is the principal of the transition to "paid", "" = there is none; answeredBy
// are those of the inputs behind the first message.
func paidBy(records []*pawlv1.Record) (payer string, answeredBy []string) {
	for _, rec := range records {
		if rec.GetTransition().GetToState() == "paid" {
			payer = rec.GetPrincipal()
		}
		if rec.GetInputReceived() != nil {
			answeredBy = append(answeredBy, rec.GetPrincipal())
		}
	}
	return payer, answeredBy[1:]
}

// TestAnswersByTheirRights: whoever answers a question, over however many hops, does
// it in his own name and by his own rights. A state that is moved from outside is moved
// by nobody without events:external, and by no sidecar with a credential that lacks it; a
// credential without tasks:answer-for passes no answer on.
func TestAnswersByTheirRights(t *testing.T) {
	t.Parallel()
	const full, weak = "runs:write,runs:read,events:external,tasks:answer-for", "runs:write,runs:read,tasks:answer-for"
	const mute = "runs:write,runs:read,events:external" // it may not speak in another's name
	for _, hop := range []struct{ name, first, binding, credential string }{
		{"a local child", "desk", "", ""},
		{"a local grandchild", "lobby", "", ""},
		{"GRPC", "desk", "GRPC", full},
		{"JSONRPC", "desk", "JSONRPC", full},
		{"HTTP+JSON", "desk", "HTTP+JSON", full},
		{"a local child, then GRPC", "lobby", "GRPC", full},
		{"GRPC, weak credential", "desk", "GRPC", weak},
		{"JSONRPC, weak credential", "desk", "JSONRPC", weak},
		{"GRPC, mute credential", "desk", "GRPC", mute},
		{"HTTP+JSON, mute credential", "lobby", "HTTP+JSON", mute},
		{"HTTP+JSON, admin credential", "lobby", "HTTP+JSON", "admin"},
	} {
		t.Run(hop.name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, hop.first, hop.binding, hop.credential)
			for _, who := range []string{clerk, approver, chief} {
				for _, o := range orchestrations {
					t.Run(who+", "+o, func(t *testing.T) {
						t.Parallel()
						b.answer(t, who, o, hop.credential != mute && (o != "external" || who != clerk && hop.credential != weak))
					})
				}
			}
		})
	}
}

// answer lets somebody answer and checks what becomes of the payment.
func (b *bank) answer(t *testing.T, who, orchestration string, pays bool) {
	t.Helper()
	started, err := b.runs(clerk).StartRun(b.ctx, &pawlv1.StartRunRequest{
		Pack: "bank", Entry: &pawlv1.StartRunRequest_Agent{Agent: b.first + "_" + orchestration}, Execution: pawlv1.Execution_EXECUTION_WORKERS, Input: text("go"),
	})
	if err != nil {
		t.Fatal(err)
	}
	run := started.GetRun().GetRunId()
	asked, seq := b.question(t, run, 0)
	if asked == nil {
		t.Fatal("the run ended without a question")
	}
	answered, err := b.runs(who).SendInput(b.ctx, &pawlv1.SendInputRequest{RunId: run, Step: asked.GetStep(), Parts: text("yes")})
	if err != nil {
		t.Fatal(err)
	}
	if in := answered.GetRecord(); in.GetPrincipal() != who || len(in.GetInputReceived().GetScopes()) == 0 {
		t.Errorf("the answer is recorded as %v", in)
	}
	again, _ := b.question(t, run, seq)
	payer, answeredBy := paidBy(b.leaf(t, run))
	if !pays {
		if payer != "" || len(answeredBy) != 0 {
			t.Fatalf("paid by %q, answered by %q, want neither", payer, answeredBy)
		}
		if last := again.GetQuestion(); len(last) == 0 || !strings.Contains(last[len(last)-1].GetText(), "SCOPE_MISSING") {
			t.Fatalf("the question that was put back is %v", again)
		}
		b.answerAgain(t, run, again.GetStep())
		return
	}
	want := b.via + who
	if again != nil || len(answeredBy) != 1 || answeredBy[0] != want {
		t.Errorf("answered by %q, want %q; asked again %v", answeredBy, want, again)
	}
	if orchestration == "external" && payer != want || payer == "" || payer == "pawl" {
		t.Errorf("paid by %q, want %q", payer, want)
	}
}

// answerAgain: the question that was put back is there for whoever may answer it.
func (b *bank) answerAgain(t *testing.T, run string, step uint32) {
	t.Helper()
	seq := b.seq(t, run)
	if _, err := b.runs(approver).SendInput(b.ctx, &pawlv1.SendInputRequest{RunId: run, Step: step, Parts: text("yes")}); err != nil {
		t.Fatal(err)
	}
	again, _ := b.question(t, run, seq)
	payer, _ := paidBy(b.leaf(t, run))
	if again != nil && payer == "" {
		// The credential of the near sidecar bounds him, too.
		return
	}
	if payer != b.via+approver {
		t.Errorf("paid by %q, want %q", payer, b.via+approver)
	}
}

func (b *bank) seq(t *testing.T, run string) uint64 {
	t.Helper()
	got, err := b.runs(chief).GetRun(b.ctx, &pawlv1.GetRunRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetRun().GetSeq()
}
