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

// The principals of a bank. sidecarA is the name of one sidecar at the other.
const (
	clerk     = "clerk"    // runs:write
	approver  = "approver" // runs:write and events:external
	adminName = "chief"    // admin
	sidecarA  = "sidecar-a"
)

var orchestrations = []string{"internal", "external", "hybrid"}

// bankPack has a teller for each orchestration. The payment of a teller waits for a message or an
// event from outside. desk_X asks teller_X, and lobby_X asks desk_X.
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

// callToolTurn calls the only tool of its prompt, and ends with the result.
func callToolTurn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	result, err := t.Step(ctx, "", t.Assignment.GetTurn().GetTools()[0].GetName(), `{"message": "100 EUR"}`)
	return pawl.Completion{Output: text(result)}, err
}

// payTurn asks once, and pays after any answer.
func payTurn(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
	switch turn := t.Assignment.GetTurn(); {
	case turn.GetTerminal():
		return pawl.Completion{Output: text("paid")}, nil
	case len(turn.GetMessages()) < 2:
		return pawl.Completion{Output: text("pay?"), Await: pawlv1.Awaiting_AWAITING_INPUT}, nil
	}
	return pawl.Completion{Event: "Pay", Output: text("paying")}, nil
}

func secretFor(name string) string { return "secret-of-" + name + "-0123456789" }

// tokens writes a token file from pairs of NAME and SCOPES.
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

// dialAs connects as a principal.
func dialAs(t *testing.T, s *runningSidecar, name string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(output.Bearer(secretFor(name))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func workAs(t *testing.T, s *runningSidecar, id string, prompts map[string]pawl.TurnFunc) {
	t.Helper()
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: dialAs(t, s, "hands"), ID: id, Prompts: prompts, Turns: 32, Grace: time.Second, OnError: func(err error) { t.Log(err) }})
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

// bank is one sidecar, or two: then the tellers are at the second one.
type bank struct {
	t           *testing.T
	ctx         context.Context
	nearSidecar *runningSidecar
	farSidecar  *runningSidecar
	// first is the kind of agent that runs start with: "desk" or "lobby".
	first string
	// principalName is what the far sidecar puts before the name of a principal for which the near one speaks.
	principalName string
}

// newBank starts a bank. With binding "" the tellers are at the near sidecar. credential has the
// scopes of the near sidecar at the far one.
func newBank(t *testing.T, first, binding, credential string) *bank {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	b := &bank{t: t, ctx: ctx, first: first}
	tellers, askers := map[string]pawl.TurnFunc{}, map[string]pawl.TurnFunc{}
	for _, o := range orchestrations {
		tellers["teller_"+o], askers["desk_"+o], askers["lobby_"+o] = payTurn, callToolTurn, callToolTurn
	}
	c := settings(t)
	c.Packs, c.AllowTools = []string{packWith(t, bankPack())}, []string{"*"}
	c.TokensFile = tokens(t, clerk, "runs:write,runs:read", approver, "runs:write,runs:read,events:external", adminName, "admin", "hands", "work")
	if binding == "" {
		b.nearSidecar = serveToEnd(t, c)
		workAs(t, b.nearSidecar, "tellers", tellers)
	} else {
		remote := settings(t)
		remote.Packs, remote.HTTP = c.Packs, "127.0.0.1:0"
		remote.TokensFile = tokens(t, sidecarA, credential, "hands", "work", "auditor", "runs:read")
		b.farSidecar, b.principalName = serveToEnd(t, remote), sidecarA+">"
		workAs(t, b.farSidecar, "tellers", tellers)
		c.Agents = map[string]config.Agent{}
		for _, o := range orchestrations {
			c.Agents["teller_"+o] = config.Agent{
				Card: cardOf(t, b.farSidecar.ready.HTTP, "bank/teller_"+o, binding), TokenFile: writeFile(t, "token", secretFor(sidecarA)),
			}
		}
		b.nearSidecar = serveToEnd(t, c)
	}
	workAs(t, b.nearSidecar, "askers", askers)
	return b
}

func (b *bank) runs(name string) pawlv1.RunServiceClient {
	return pawlv1.NewRunServiceClient(dialAs(b.t, b.nearSidecar, name))
}

// These are the kinds of records that the tests of this file read.
var told = []pawlv1.RecordKind{
	pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_INPUT_RECEIVED,
	pawlv1.RecordKind_RECORD_KIND_STEP_DELEGATED, pawlv1.RecordKind_RECORD_KIND_ENDED,
}

// question waits for the next question of a run behind a record. It returns nil if the run ended.
func (b *bank) question(t *testing.T, run string, after uint64) (*pawlv1.StepDelegated, uint64) {
	t.Helper()
	stream, err := b.runs(adminName).StreamTransitions(b.ctx, &pawlv1.StreamTransitionsRequest{RunId: run, AfterSeq: after, Follow: true, Kinds: told})
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

// leaf returns the records of the last run in the chain of delegations.
func (b *bank) leaf(t *testing.T, run string) []*pawlv1.Record {
	t.Helper()
	runs := b.runs(adminName)
	for {
		list, err := runs.ListTransitions(b.ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageSize: 1000, Kinds: told})
		if status.Code(err) == codes.NotFound && b.farSidecar != nil {
			runs = pawlv1.NewRunServiceClient(dialAs(t, b.farSidecar, "auditor"))
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

// paidBy returns the principal of the transition to "paid", or "" if there is none. answeredBy are
// the principals of the inputs after the first message.
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

// TestAnswersByTheirRights: a principal that answers a question, over any number of hops, does so
// in its own name and with its own rights. A state that is moved from outside is moved only with
// events:external: the principal needs the scope, and so does the credential of the sidecar. A
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
			for _, principal := range []string{clerk, approver, adminName} {
				for _, o := range orchestrations {
					t.Run(principal+", "+o, func(t *testing.T) {
						t.Parallel()
						b.answer(t, principal, o, hop.credential != mute && (o != "external" || principal != clerk && hop.credential != weak))
					})
				}
			}
		})
	}
}

// answer starts a run, answers its question as the principal, and checks whether the payment is made.
func (b *bank) answer(t *testing.T, principal, orchestration string, pays bool) {
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
	answered, err := b.runs(principal).SendInput(b.ctx, &pawlv1.SendInputRequest{RunId: run, Step: asked.GetStep(), Parts: text("yes")})
	if err != nil {
		t.Fatal(err)
	}
	if in := answered.GetRecord(); in.GetPrincipal() != principal || len(in.GetInputReceived().GetScopes()) == 0 {
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
	want := b.principalName + principal
	if again != nil || len(answeredBy) != 1 || answeredBy[0] != want {
		t.Errorf("answered by %q, want %q; asked again %v", answeredBy, want, again)
	}
	if orchestration == "external" && payer != want || payer == "" || payer == "pawl" {
		t.Errorf("paid by %q, want %q", payer, want)
	}
}

// answerAgain answers the question that was put back, as a principal that may answer it.
func (b *bank) answerAgain(t *testing.T, run string, step uint32) {
	t.Helper()
	seq := b.seq(t, run)
	if _, err := b.runs(approver).SendInput(b.ctx, &pawlv1.SendInputRequest{RunId: run, Step: step, Parts: text("yes")}); err != nil {
		t.Fatal(err)
	}
	again, _ := b.question(t, run, seq)
	payer, _ := paidBy(b.leaf(t, run))
	if again != nil && payer == "" {
		// The credential of the near sidecar is a bound for the approver, too.
		return
	}
	if payer != b.principalName+approver {
		t.Errorf("paid by %q, want %q", payer, b.principalName+approver)
	}
}

func (b *bank) seq(t *testing.T, run string) uint64 {
	t.Helper()
	got, err := b.runs(adminName).GetRun(b.ctx, &pawlv1.GetRunRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetRun().GetSeq()
}
