package a2a

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// stage runs the commands of one run through the real machine and projects its records.
type stage struct {
	graph *machine.Graph
	x     *pack.XPawl
	// sensitive: the reader may not see sensitive values.
	sensitive bool
	// semantics is the version of the inputs. parent is the step that started the run, if any.
	semantics machine.Semantics
	parent    *machine.Parent
	state     *machine.State
	p         *projector
	builder   *taskBuilder
	at        int64
	n         int
}

func newStage(t testing.TB, agent string) *stage {
	t.Helper()
	return stageOf(t, "testdata/agents.yaml", agent)
}

func stageOf(t testing.TB, file, agent string) *stage {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	loaded, found, err := pack.Load(content, pack.Options{})
	if err != nil || loaded == nil {
		t.Fatal(found, err)
	}
	graph, err := loaded.Compile(pack.Entry{Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	return &stage{semantics: machine.Current, graph: graph, x: loaded.XPawl(), at: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
}

func textParts(words string) []machine.Part {
	return []machine.Part{{Kind: machine.PartText, Text: words}}
}

// apply executes one input and returns its events.
func (s *stage) apply(c machine.Command) ([]event, error) {
	s.at += int64(time.Second)
	s.n++
	in := machine.Input{At: s.at, Principal: "p", Semantics: s.semantics, BodyHash: [32]byte{byte(s.n), byte(s.n >> 8)}, Command: c}
	r, err := rules.Step(s.graph, s.state, in)
	if err != nil || r.Batch == nil {
		return nil, err
	}
	s.state = r.State
	if s.p == nil {
		s.p = newProjector(s.state, s.graph)
		if s.sensitive {
			s.p.redaction = &redaction{hidden: s.x.SensitiveNames()}
		}
		s.builder = newFold(s.p)
	}
	events := s.p.commit(in.Semantics, r.Batch.Records)
	s.builder.apply(events)
	return events, nil
}

func (s *stage) start(words string) ([]event, error) {
	return s.apply(machine.Start{
		RunID: "T", Execution: machine.Workers, Input: textParts(words), Variables: []byte(`{"subject":"x"}`),
		Limits: machine.Limits{MaxTransitions: 1000, MaxMessageBytes: 1 << 20, MaxQueuedInputs: 16, MaxArtifactBytes: 1 << 16, MaxRunArtifactBytes: 1 << 20},
		Task:   &machine.Task{ContextID: "C", Owner: "o", Tenant: "crew/" + s.graph.Agent}, Envelope: &machine.Envelope{MessageID: "m1"}, Parent: s.parent,
	})
}

// turn returns the number and the attempt of the open turn, and a worker that has it.
func (s *stage) turn() (seq uint64, attempt int, by *machine.Assignment) {
	if s.state.Turn == nil {
		return 0, 0, nil
	}
	return s.state.Turn.Seq, s.state.Turn.Attempt, &machine.Assignment{Worker: "w", Delivery: 1, At: 1}
}

// TestProjector reads scenarios: the commands of a run, and the events that the sender of its task
// receives.
func TestProjector(t *testing.T) {
	t.Parallel()
	var s *stage
	datadriven.RunTest(t, "testdata/projector.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "task" {
			return text(s.builder.view(nil, true))
		}
		if d.Cmd == "start" {
			agent := "writer"
			d.MaybeScanArgs(t, "agent", &agent)
			file := "agents"
			d.MaybeScanArgs(t, "pack", &file)
			s = stageOf(t, "testdata/"+file+".yaml", agent)
			s.sensitive = d.HasArg("sensitive")
			if d.HasArg("child") {
				s.parent = &machine.Parent{RunID: "P", Step: 1, Attempt: 1}
			}
			var version int
			if d.MaybeScanArgs(t, "semantics", &version); version > 0 {
				s.semantics = machine.Semantics(version)
			}
			d.MaybeScanArgs(t, "visits", &s.graph.Budget.MaxTotalVisits)
		}
		events, err := s.command(t, d)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for i := range events {
			b.WriteString(formatEvent(&events[i]) + "\n")
		}
		return b.String()
	})
}

// command is one line of a scenario; the input is its text.
func (s *stage) command(t *testing.T, d *datadriven.TestData) ([]event, error) {
	t.Helper()
	seq, attempt, by := uint64(0), 0, (*machine.Assignment)(nil)
	if s.state != nil {
		seq, attempt, by = s.turn()
	}
	word := func(key string) (v string) {
		d.MaybeScanArgs(t, key, &v)
		return v
	}
	step := func() uint32 { n, _ := strconv.Atoi(word("step")); return uint32(n) }
	await := map[string]machine.Awaiting{"input": machine.AwaitInput, "auth": machine.AwaitAuth}
	switch d.Cmd {
	case "start":
		return s.start(d.Input)
	case "input":
		return s.apply(machine.SendInput{Parts: textParts(d.Input), Step: step(), Envelope: &machine.Envelope{MessageID: word("id")}})
	case "complete":
		c := machine.CompleteTurn{TurnSeq: seq, Attempt: attempt, Assigned: by, Event: word("event"), Await: await[word("await")], Reply: d.HasArg("reply")}
		if d.Input != "" {
			c.Output = textParts(d.Input)
		}
		if name := word("artifact"); name != "" {
			c.Artifacts = []machine.ArtifactWrite{{Name: name, Value: []byte(word("value"))}}
		}
		if d.HasArg("outside") {
			c.Outside, c.Assigned = true, nil
		}
		return s.apply(c)
	case "fail":
		return s.apply(machine.FailTurn{TurnSeq: seq, Attempt: attempt, Assigned: by, Error: machine.Fault{Code: "BAD", Message: d.Input}, Retryable: d.HasArg("retry"), Reject: d.HasArg("reject")})
	case "write":
		return s.apply(machine.WriteOutput{TurnSeq: seq, Attempt: attempt, Assigned: by, Piece: machine.OutputPiece{ID: word("id"), Parts: textParts(d.Input), Append: d.HasArg("append"), Last: d.HasArg("last")}})
	case "emit":
		c := machine.EmitEvent{Event: word("event"), Outside: true}
		if d.HasArg("holder") {
			c.Outside, c.Assigned = false, by
		}
		return s.apply(c)
	case "ask":
		return s.apply(machine.RequestSteps{TurnSeq: seq, Attempt: attempt, Assigned: by, Requests: []machine.StepRequest{{Tool: "painter", Payload: []byte("{}")}}})
	case "model":
		return s.apply(machine.RequestModel{TurnSeq: seq, Attempt: attempt, Assigned: by, Round: 1, Model: singleMessageRequest("gpt", "a secret prompt")})
	case "answer":
		c := machine.AnswerModel{TurnSeq: seq, TurnAttempt: attempt, Step: step(), Attempt: 1, Assigned: by, Usage: machine.Usage{InputTokens: 7, OutputTokens: 3}}
		if c.Answer = (&machine.ModelAnswer{Parts: textParts(d.Input)}); d.HasArg("failed") {
			c.Answer, c.Error, c.Final = nil, machine.Fault{Code: "MODEL_429", Message: d.Input}, true
		}
		return s.apply(c)
	case "note":
		n := machine.NoteDelegation{Step: step(), Attempt: 1, Remote: machine.Remote{TaskID: "R", Asking: await[word("asking")]}}
		if d.Input != "" {
			n.Question = textParts(d.Input)
		}
		return s.apply(n)
	case "resolve":
		return s.apply(machine.ResolveStep{Step: step(), Tool: cmp.Or(word("tool"), "painter"), Attempt: 1, OK: true, Result: []byte("1")})
	case "call":
		payload := []byte(d.Input)
		return s.apply(machine.RequestSteps{TurnSeq: seq, Attempt: attempt, Assigned: by, Requests: []machine.StepRequest{
			{Tool: word("tool"), Payload: payload, PayloadHash: validate.PayloadHash(payload), Holding: machine.Holding{Free: d.HasArg("free"), Why: word("why")}},
		}})
	case "decide":
		return s.apply(s.decision(word("is"), step(), []byte(d.Input)))
	case "lapse":
		s.at += int64(time.Hour)
		return s.apply(machine.DecideStep{Step: step(), Digest: s.digest(step()), Verdict: machine.Expired})
	case "late":
		return s.apply(machine.FireTimer{Kind: machine.TimerStep, Step: step(), Due: s.deadline(step())})
	case "steer":
		return s.apply(machine.Steer{Text: d.Input, When: map[string]machine.SteerWhen{"": machine.NextModelCall, "now": machine.SteerNow, "next_turn": machine.NextTurn}[word("when")]})
	case "stop":
		return s.apply(machine.Stop{})
	case "suspend":
		return s.apply(machine.SuspendTurn{TurnSeq: seq, Attempt: attempt, Assigned: by})
	case "pause":
		return s.apply(machine.Pause{})
	case "resume":
		return s.apply(machine.Resume{})
	case "cancel":
		return s.apply(machine.Cancel{})
	}
	return nil, fmt.Errorf("no command %q", d.Cmd)
}

// decision returns a decision about a held call in its current form.
func (s *stage) decision(is string, step uint32, payload []byte) machine.DecideStep {
	c := machine.DecideStep{Step: step, Digest: s.digest(step), Verdict: protocol.Verdicts[is], Reason: "because"}
	if c.Verdict == machine.Edited {
		c.Payload, c.PayloadHash = payload, validate.PayloadHash(payload)
	}
	if c.Verdict != machine.Refused {
		c.Expires = s.at + int64(time.Hour)
	}
	return c
}

func (s *stage) digest(step uint32) (d [32]byte) {
	for i := range s.state.Steps {
		if p := &s.state.Steps[i]; p.Step == step && p.Approval != nil {
			d = p.Approval.Digest
		}
	}
	return d
}

func (s *stage) deadline(step uint32) int64 {
	for i := range s.state.Steps {
		if s.state.Steps[i].Step == step {
			return s.state.Steps[i].Deadline
		}
	}
	return 0
}

// singleMessageRequest returns a request of one message.
func singleMessageRequest(model, words string) *machine.ModelRequest {
	return &machine.ModelRequest{
		Model: model, Hash: [32]byte{1}, Messages: []machine.ModelMessage{{Message: &machine.Message{Role: "user", Parts: textParts(words)}}},
	}
}

// formatEvent formats an event as one line.
func formatEvent(e *event) string {
	head := fmt.Sprintf("%d ", e.seq)
	switch {
	case e.message != nil:
		return head + "received " + words(e.message.GetParts())
	case e.update.GetArtifactUpdate() != nil:
		u := e.update.GetArtifactUpdate()
		line := head + "artifact " + u.GetArtifact().GetArtifactId() + " " + words(u.GetArtifact().GetParts())
		if u.GetAppend() {
			line += " append"
		}
		if u.GetLastChunk() {
			line += " last"
		}
		return line
	}
	return head + statusLine(e.update.GetStatusUpdate().GetStatus()) + reason(e.update.GetStatusUpdate())
}

func reason(u *a2apb.TaskStatusUpdateEvent) string {
	r := u.GetMetadata().GetFields()[protocol.ReasonKey].GetStringValue()
	if r == "" {
		return ""
	}
	if lost := u.GetMetadata().GetFields()[lostKey]; lost != nil {
		return " reason=" + r + " lost=" + string(protocol.ValueFromProto(lost))
	}
	return " reason=" + r
}

func statusLine(st *a2apb.TaskStatus) string {
	line := strings.TrimPrefix(st.GetState().String(), "TASK_STATE_") + " since " + st.GetTimestamp().AsTime().Format("05") + "s"
	if m := st.GetMessage(); m != nil {
		line += " says " + words(m.GetParts())
	}
	return line
}

func words(parts []*a2apb.Part) string {
	var out []string
	for _, p := range parts {
		if p.GetData() != nil {
			out = append(out, string(protocol.ValueFromProto(p.GetData())))
			continue
		}
		out = append(out, strconv.Quote(p.GetText()))
	}
	return strings.Join(out, "+")
}

// text formats a task in a few lines.
func text(task *a2apb.Task) string {
	var b strings.Builder
	fmt.Fprintln(&b, statusLine(task.GetStatus()))
	for _, m := range task.GetHistory() {
		fmt.Fprintf(&b, "%s %s %s\n", strings.ToLower(strings.TrimPrefix(m.GetRole().String(), "ROLE_")), m.GetMessageId(), words(m.GetParts()))
	}
	for _, a := range task.GetArtifacts() {
		fmt.Fprintf(&b, "artifact %s %s\n", a.GetArtifactId(), words(a.GetParts()))
	}
	return b.String()
}

// TestProjectorFollowsTheMachine executes random runs. The projector, which reads only records, always has
// the state of the run and the time of that state. A second reading of the records makes the same events.
func TestProjectorFollowsTheMachine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := newStage(t, []string{"writer", "reviewer", "archive"}[rnd.IntN(3)])
		if _, err := s.start("go"); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			c := s.random(rnd)
			if _, err := s.apply(c); err != nil {
				continue
			}
			if got, want := s.p.state, taskState(s.state); got != want {
				t.Fatalf("seed %d: after %T %+v the projector says %v, the run is %v (%v, awaiting %d)", seed, c, c, got, want, s.state.Status, s.state.Awaiting)
			}
			if s.p.since != s.state.StatusAt {
				t.Fatalf("seed %d: after %T the status is since %d, the run's since %d", seed, c, s.p.since, s.state.StatusAt)
			}
			if got := s.builder.task.GetStatus().GetState(); got != s.p.state {
				t.Fatalf("seed %d: after %T the fold says %v", seed, c, got)
			}
		}
		if s.state.Status.Terminal() != ended(s.p.state) {
			t.Fatalf("seed %d: %v and %v", seed, s.state.Status, s.p.state)
		}
		if !proto.Equal(s.builder.task, s.builder.view(nil, true)) {
			t.Fatalf("seed %d: a view of everything is not everything", seed)
		}
	}
}

// TestProjectorFollowsApprovals does the same for held calls, steering, stops and compensated effects. The
// question of a held call describes that call.
func TestProjectorFollowsApprovals(t *testing.T) {
	t.Parallel()
	heldCount, undone := 0, 0
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		s := stageOf(t, "testdata/approvals.yaml", []string{"teller", "secret", "desk"}[rnd.IntN(3)])
		if _, err := s.start("go"); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			c := s.controlled(rnd)
			if _, err := s.apply(c); err != nil {
				continue
			}
			if got, want := s.p.state, taskState(s.state); got != want {
				t.Fatalf("seed %d: after %T %+v the projector says %v, the run is %v (%v, awaiting %d)", seed, c, c, got, want, s.state.Status, s.state.Awaiting)
			}
			if s.p.since != s.state.StatusAt {
				t.Fatalf("seed %d: after %T %+v the status is since %d, the run's since %d", seed, c, c, s.p.since, s.state.StatusAt)
			}
			if s.state.Undo != nil {
				undone++
			}
			heldCount += s.asksRightly(t, seed)
		}
	}
	if heldCount < 500 || undone < 100 {
		t.Errorf("%d questions were looked at, %d moments of compensation", heldCount, undone)
	}
}

// asksRightly compares the status message with the calls that wait, and returns how many there are.
func (s *stage) asksRightly(t *testing.T, seed uint64) (n int) {
	t.Helper()
	status := words(s.builder.task.GetStatus().GetMessage().GetParts())
	for i := range s.state.Steps {
		p := &s.state.Steps[i]
		if p.HeldForApproval() != strings.Contains(status, digestText(s.digest(p.Step))) && (p.HeldForApproval() || p.Approval != nil) {
			t.Fatalf("seed %d: step %d waits: %v, and the task says %s", seed, p.Step, p.HeldForApproval(), status)
		}
		if p.HeldForApproval() {
			n++
		}
	}
	return n
}

// controlled returns a random command that controls a run, or any other random command.
func (s *stage) controlled(rnd *rand.Rand) machine.Command {
	seq, attempt, by := s.turn()
	step := uint32(1 + rnd.IntN(6))
	switch rnd.IntN(12) {
	case 0, 1, 2:
		tool := []string{"refund", "look", "book", "payout", "clerk"}[rnd.IntN(5)]
		payload := fmt.Appendf(nil, `{"order":"o%d","amount":%d}`, rnd.IntN(1000), rnd.IntN(200))
		return machine.RequestSteps{TurnSeq: seq, Attempt: attempt, Assigned: by, Requests: []machine.StepRequest{
			{Tool: tool, Payload: payload, PayloadHash: validate.PayloadHash(payload), Holding: machine.Holding{Free: rnd.IntN(3) == 0}},
		}}
	case 3, 4:
		return s.decision([]string{"approve", "deny", "edit"}[rnd.IntN(3)], step, []byte(`{"order":"x","amount":1}`))
	case 5:
		if rnd.IntN(2) == 0 {
			s.at += int64(2 * time.Hour)
			return machine.DecideStep{Step: step, Digest: s.digest(step), Verdict: machine.Expired}
		}
		return machine.FireTimer{Kind: machine.TimerStep, Step: step, Due: s.deadline(step)}
	case 6:
		return machine.Steer{Text: "hear", When: machine.SteerWhen(1 + rnd.IntN(3))}
	case 7:
		return machine.Stop{}
	case 8:
		tool := "book"
		for i := range s.state.Steps {
			if s.state.Steps[i].Step == step {
				tool = s.state.Steps[i].Tool
			}
		}
		c := machine.ResolveStep{Step: step, Tool: tool, Attempt: 1, OK: rnd.IntN(4) > 0, Result: []byte("1")}
		if !c.OK {
			c.Result, c.Error = nil, machine.Fault{Code: "BROKEN"}
		}
		return c
	case 9:
		return machine.NoteDelegation{Step: step, Attempt: 1, Remote: machine.Remote{TaskID: "R", Asking: []machine.Awaiting{0, 1, 2}[rnd.IntN(3)]}, Question: textParts("which?")}
	case 10:
		return machine.EmitEvent{Event: []string{"Again", "Undo", "Done"}[rnd.IntN(3)], Outside: true}
	}
	return s.random(rnd)
}

// random returns a command that the machine may accept or refuse.
func (s *stage) random(rnd *rand.Rand) machine.Command {
	seq, attempt, by := s.turn()
	await := []machine.Awaiting{machine.AwaitNothing, machine.AwaitNothing, machine.AwaitInput, machine.AwaitAuth}[rnd.IntN(4)]
	events := []string{"", "", "Submit", "Again", "Approve", "Reject", "Sign"}
	step := uint32(rnd.IntN(4))
	switch rnd.IntN(16) {
	case 0:
		return machine.SendInput{Parts: textParts("in"), Step: step}
	case 1, 2, 3:
		c := machine.CompleteTurn{TurnSeq: seq, Attempt: attempt, Assigned: by, Await: await, Event: events[rnd.IntN(len(events))], Output: textParts("out"), Reply: rnd.IntN(4) == 0}
		if s.state.Turn != nil && s.graph.States[s.state.Current].Orchestration == machine.External {
			c.Outside, c.Assigned, c.Event = true, nil, ""
		}
		return c
	case 4:
		return machine.FailTurn{TurnSeq: seq, Attempt: attempt, Assigned: by, Retryable: rnd.IntN(3) > 0}
	case 5, 6:
		return machine.WriteOutput{TurnSeq: seq, Attempt: attempt, Assigned: by, Piece: machine.OutputPiece{ID: "a", Parts: textParts("p"), Append: rnd.IntN(2) == 0}}
	case 7:
		return machine.EmitEvent{Event: events[rnd.IntN(len(events))], Outside: true}
	case 8:
		return machine.RequestSteps{TurnSeq: seq, Attempt: attempt, Assigned: by, Requests: []machine.StepRequest{{Tool: "painter", Payload: []byte("{}")}}}
	case 9:
		return machine.NoteDelegation{Step: step, Attempt: 1, Remote: machine.Remote{TaskID: "R", Asking: await}, Question: textParts("which?")}
	case 10:
		return machine.ResolveStep{Step: step, Tool: "painter", Attempt: 1, OK: true, Result: []byte("1")}
	case 11:
		return machine.SuspendTurn{TurnSeq: seq, Attempt: attempt, Assigned: by}
	case 12:
		if s.state.Turn != nil {
			return machine.FireTimer{Kind: machine.TimerRetry, Turn: seq, Due: s.state.Turn.NotBefore}
		}
		return machine.Resume{}
	case 13:
		return machine.RequestModel{TurnSeq: seq, Attempt: attempt, Assigned: by, Round: 1, Model: singleMessageRequest("gpt", "go")}
	case 14:
		c := machine.AnswerModel{TurnSeq: seq, TurnAttempt: attempt, Step: step, Attempt: 1, Assigned: by}
		if c.Answer = (&machine.ModelAnswer{Parts: textParts("it is")}); rnd.IntN(2) == 0 {
			c.Answer, c.Error = nil, machine.Fault{Code: "MODEL_429"}
		}
		return c
	}
	if rnd.IntN(6) == 0 {
		return machine.Cancel{}
	}
	return machine.Pause{}
}
