package rules

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// args reads the words of one scenario command.
type args struct {
	t *testing.T
	d *datadriven.TestData
	s *machine.State
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) text(key string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return strings.Join(arg.Vals, ",")
		}
	}
	return ""
}

func (a args) number(key string, absent int64) int64 {
	if !a.has(key) {
		return absent
	}
	n, err := strconv.ParseInt(a.text(key), 10, 64)
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", key, err)
	}
	return n
}

func (a args) seconds(key string) time.Duration {
	if !a.has(key) {
		return 0
	}
	d, err := time.ParseDuration(a.text(key))
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", key, err)
	}
	return d
}

// firstWord is the first word that has no value.
func (a args) firstWord() string {
	if len(a.d.CmdArgs) == 0 || len(a.d.CmdArgs[0].Vals) > 0 {
		a.d.Fatalf(a.t, "%s needs a word", a.d.Cmd)
	}
	return a.d.CmdArgs[0].Key
}

// turn is the open turn unless turn= and attempt= say otherwise.
func (a args) turn() (uint64, int) {
	var open machine.Turn
	if a.s != nil && a.s.Turn != nil {
		open = *a.s.Turn
	}
	return uint64(a.number("turn", int64(open.Seq))), int(a.number("attempt", int64(open.Attempt)))
}

// assignment is worker=NAME/DELIVERY.
func (a args) assignment() *machine.Assignment {
	if !a.has("worker") {
		return nil
	}
	name, delivery, _ := strings.Cut(a.text("worker"), "/")
	n, err := strconv.Atoi(delivery)
	if err != nil {
		a.d.Fatalf(a.t, "worker=NAME/DELIVERY: %v", err)
	}
	return &machine.Assignment{Worker: name, Delivery: n, At: epoch}
}

func (a args) usage() machine.Usage {
	u := machine.Usage{
		InputTokens: a.number("tokens_in", 0), OutputTokens: a.number("tokens_out", 0),
		CostMicro: a.number("cost", 0), ToolCalls: int(a.number("calls", 0)), Model: a.text("model"),
		CachedTokens: a.number("cached", 0), ReasoningTokens: a.number("reasoning", 0),
	}
	if a.has("price") {
		p, err := parsePrice(a.text("price"))
		if err != nil {
			a.d.Fatalf(a.t, "price=: %v", err)
		}
		u.Price = &p
	}
	return u
}

// value reads "@70000" as that many x and "@json70000" as a JSON string of it.
func value(text string) []byte {
	if n, err := strconv.Atoi(strings.TrimPrefix(text, "@json")); err == nil && strings.HasPrefix(text, "@json") {
		return []byte(`"` + strings.Repeat("x", n-2) + `"`)
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(text, "@")); err == nil && strings.HasPrefix(text, "@") {
		return []byte(strings.Repeat("x", n))
	}
	if text == "@invalid" {
		return []byte{0xff, 0xfe}
	}
	return []byte(text)
}

// artifactWrites are the lines "name = value".
func (a args) artifactWrites() []machine.ArtifactWrite {
	var writes []machine.ArtifactWrite
	for line := range a.lines() {
		if name, v, ok := strings.Cut(line, " = "); ok {
			writes = append(writes, machine.ArtifactWrite{Name: name, Value: value(v)})
		}
	}
	return writes
}

// output is the line "output: text", messages the lines "message: text".
func (a args) output() []machine.Part {
	for line := range a.lines() {
		if text, ok := strings.CutPrefix(line, "output: "); ok {
			return textPart(string(value(text)))
		}
	}
	return nil
}

func (a args) messages() []machine.Message {
	var messages []machine.Message
	for line := range a.lines() {
		if text, ok := strings.CutPrefix(line, "message: "); ok {
			messages = append(messages, machine.Message{Role: "assistant", Parts: textPart(string(value(text)))})
		}
	}
	return messages
}

func textPart(text string) []machine.Part {
	return []machine.Part{{Kind: machine.PartText, Text: text}}
}

// policyOf reads lists of tools; nil without any.
func policyOf(limited bool, allow, block string, named bool) *machine.ToolPolicy {
	list := func(names string) []string {
		if names == "" {
			return nil
		}
		return strings.Split(names, ",")
	}
	if !limited && block == "" && !named {
		return nil
	}
	return &machine.ToolPolicy{Limited: limited, Allow: list(allow), Block: list(block), Named: named}
}

// requests are the lines "[key:] tool payload [reframe] [by_caller] [denied=CODE] [call=STEP/INDEX] [effect=KEY]
// [allow=TOOLS|named] [local] [repeatable]".
func (a args) requests() []machine.StepRequest {
	var requests []machine.StepRequest
	for line := range a.lines() {
		words := strings.Fields(line)
		var r machine.StepRequest
		if key, ok := strings.CutSuffix(words[0], ":"); ok {
			r.Key, words = key, words[1:]
		}
		r.Tool, words = words[0], words[1:]
		for _, w := range words {
			code, denied := strings.CutPrefix(w, "denied=")
			call, asked := strings.CutPrefix(w, "call=")
			effect, keyed := strings.CutPrefix(w, "effect=")
			allow, limited := strings.CutPrefix(w, "allow=")
			switch {
			case limited || w == "named":
				r.Policy = policyOf(limited, allow, "", w == "named")
			case keyed:
				r.Effect = sha256.Sum256([]byte(effect))
			case asked:
				r.Call = &machine.CallRef{}
				if _, err := fmt.Sscanf(call, "%d/%d", &r.Call.Step, &r.Call.Index); err != nil {
					a.d.Fatalf(a.t, "call=STEP/INDEX: %v", err)
				}
			case denied:
				r.Denied = &machine.Denial{Code: code}
			case w == "reframe":
				r.Reframe = true
			case w == "by_caller":
				r.ByCaller = true
			case w == "repeatable":
				r.Repeatable = true
			case w == "local":
				r.Local = true
			case w == "free":
				r.Holding.Free = true
			default:
				r.Payload = []byte(w)
			}
		}
		r.PayloadHash = sha256.Sum256(r.Payload)
		requests = append(requests, r)
	}
	return requests
}

func (a args) lines() func(func(string) bool) {
	return func(yield func(string) bool) {
		for sc := bufio.NewScanner(strings.NewReader(a.d.Input)); sc.Scan(); {
			if !yield(strings.TrimSpace(sc.Text())) {
				return
			}
		}
	}
}

// command reads the one Command that a scenario line stands for.
func (a args) command() machine.Command {
	turn, attempt := a.turn()
	expected := uint64(a.number("expected", 0))
	switch a.d.Cmd {
	case "start":
		return a.start()
	case "emit":
		return machine.EmitEvent{Event: a.firstWord(), Artifacts: a.artifactWrites(), ExpectedSeq: expected, Outside: a.has("outside"), Assigned: a.assignment(), Violation: a.violation()}
	case "complete":
		return machine.CompleteTurn{
			TurnSeq: turn, Attempt: attempt, Output: a.output(), Messages: a.messages(), Usage: a.usage(), Event: a.text("event"),
			Artifacts: a.artifactWrites(), ExpectedSeq: expected, Outside: a.has("outside"), Assigned: a.assignment(),
			Await: a.awaitedInput("await"), Reply: a.has("reply"), ConversationThroughStep: uint32(a.number("said", 0)), Violation: a.violation(),
		}
	case "fail":
		return machine.FailTurn{Reject: a.has("reject"), Rejected: uint32(a.number("rejects", 0)), TurnSeq: turn, Attempt: attempt, Error: machine.Fault{Code: "BROKEN"}, Retryable: !a.has("final"), Usage: a.usage(), Assigned: a.assignment()}
	case "input":
		var parts []machine.Part
		if a.d.Input != "" {
			parts = textPart(string(value(a.d.Input)))
		}
		return machine.SendInput{Parts: parts, ExpectedSeq: expected, Envelope: a.envelope(), Step: uint32(a.number("step", 0))}
	case "set":
		return machine.SetArtifacts{Artifacts: a.artifactWrites(), ExpectedSeq: expected}
	case "suspend":
		return machine.SuspendTurn{TurnSeq: turn, Attempt: attempt, Assigned: a.assignment()}
	case "request":
		return machine.RequestSteps{TurnSeq: turn, Attempt: attempt, Requests: a.requests(), First: int(a.number("first", 0)), Assigned: a.assignment()}
	case "lose_turn":
		return machine.LoseTurn{TurnSeq: turn, Attempt: attempt, LeaseExpired: a.has("expired"), Undeliverable: a.has("undeliverable"), Assigned: a.assignment()}
	}
	return a.otherCommand()
}

func (a args) otherCommand() machine.Command {
	switch a.d.Cmd {
	case "ok":
		return machine.ResolveStep{Step: uint32(a.number("step", 0)), Tool: a.firstWord(), Attempt: int(a.number("attempt", 0)), OK: true, Result: value(a.d.Input), Worker: a.text("worker"), Usage: a.usage(), Metered: a.has("metered")}
	case "error":
		code := "BROKEN"
		if a.has("code") {
			code = a.text("code")
		}
		return machine.ResolveStep{
			Step: uint32(a.number("step", 0)), Tool: a.firstWord(), Attempt: int(a.number("attempt", 0)), Error: machine.Fault{Code: code, Message: a.d.Input},
			Final: a.has("final"), Unknown: a.has("unknown"), RetryAfter: time.Duration(a.number("after", 0)) * time.Second,
			Usage: a.usage(), Metered: a.has("metered"),
		}
	case "decide":
		return a.decision()
	case "steer":
		when := map[string]machine.SteerWhen{"": machine.NextModelCall, "now": machine.SteerNow, "next_turn": machine.NextTurn, "whenever": 9}
		return machine.Steer{Text: a.d.Input, When: when[a.text("when")]}
	case "stop":
		return machine.Stop{Note: a.text("note")}
	case "ask", "answer", "unanswered", "response":
		return a.modelCommand()
	case "lose_step":
		return machine.LoseStep{Step: uint32(a.number("step", 0)), Attempt: int(a.number("attempt", 1)), Worker: "w1"}
	case "write":
		turn, attempt := a.turn()
		return machine.WriteOutput{TurnSeq: turn, Attempt: attempt, Assigned: a.assignment(), Piece: a.piece()}
	case "note":
		return a.note()
	case "fire":
		return a.fire()
	case "raise":
		return machine.RaiseBudget{To: machine.Amount{Tokens: a.number("tokens", 0), CostMicro: a.number("cost", 0)}, Reason: a.text("reason")}
	case "pause":
		return machine.Pause{Note: a.text("note")}
	case "resume":
		return machine.Resume{}
	case "cancel":
		return machine.Cancel{}
	}
	a.d.Fatalf(a.t, "unknown command %q", a.d.Cmd)
	return nil
}

func (a args) start() machine.Start {
	start := machine.Start{
		Namespace: 1, RunID: "R", Execution: machine.Caller, Depth: int(a.number("depth", 0)),
		MaxWallTime: a.seconds("wall"), Lease: machine.Amount{Tokens: a.number("lease_tokens", 0), CostMicro: a.number("lease", 0), ToolCalls: a.number("lease_calls", 0)}, MaxSteps: int(a.number("max_steps", 0)), EntryOverride: a.has("override"), Conversation: a.has("conversation"),
		Limits: machine.Limits{
			MaxTransitions: int(a.number("max_transitions", 0)), MaxArtifactBytes: a.number("artifact_bytes", 0),
			MaxRunArtifactBytes: a.number("run_artifact_bytes", 0), MaxMessageBytes: a.number("message_bytes", 0),
			MaxQueuedInputs: int(a.number("queue", 0)),
		},
	}
	switch {
	case a.has("workers"):
		start.Execution = machine.Workers
	case a.has("nobody"):
		start.Execution = machine.ExecutionUnset
	}
	if a.d.Input != "" {
		start.Input = textPart(string(value(a.d.Input)))
	}
	for label := range strings.SplitSeq(a.text("labels"), ",") {
		if key, v, ok := strings.Cut(label, ":"); ok {
			start.Labels = append(start.Labels, machine.Label{Key: key, Value: v})
		}
	}
	if a.has("task") {
		start.Task = &machine.Task{ContextID: a.text("task"), Owner: "alice"}
		start.Envelope = a.envelope()
	}
	start.Policy = policyOf(a.has("allow"), a.text("allow"), a.text("block"), false)
	if a.has("parent") {
		start.Parent = &machine.Parent{RunID: a.text("parent"), Step: 1, Attempt: 1}
	}
	if a.has("payer") {
		start.Payer = &machine.Payer{}
	}
	return start
}

func (a args) awaitedInput(key string) machine.Awaiting {
	return map[string]machine.Awaiting{"input": machine.AwaitInput, "auth": machine.AwaitAuth}[a.text(key)]
}

func (a args) envelope() *machine.Envelope {
	if !a.has("message") {
		return nil
	}
	return &machine.Envelope{MessageID: a.text("message")}
}

func (a args) piece() machine.OutputPiece {
	piece := machine.OutputPiece{ID: a.text("artifact"), Append: a.has("append"), Last: a.has("last")}
	if a.d.Input != "" {
		piece.Parts = textPart(string(value(a.d.Input)))
	}
	return piece
}

// note is "note step=1 [attempt=1] task=ID [asking=input] [answer=SEQ] [sent=once]" with the
// question as text.
func (a args) note() machine.NoteDelegation {
	c := machine.NoteDelegation{Step: uint32(a.number("step", 0)), Attempt: int(a.number("attempt", 1)), Remote: machine.Remote{
		TaskID: a.text("task"), CardURL: a.text("card"), Asking: a.awaitedInput("asking"), Answer: uint64(a.number("answer", 0)),
	}}
	c.Remote.Sent = sendings[a.text("sent")]
	if a.d.Input != "" {
		c.Question = textPart(string(value(a.d.Input)))
	}
	return c
}

var sendings = map[string]machine.Sending{"once": machine.SentOnce, "repeatable": machine.SentRepeatable, "not": machine.SentNot}

// fire takes the run's own timer of that kind, unless due= is given.
func (a args) fire() machine.FireTimer {
	kinds := map[string]machine.TimerKind{"wall": machine.TimerWall, "retry": machine.TimerRetry, "state": machine.TimerState, "step": machine.TimerStep}
	c := machine.FireTimer{Kind: kinds[a.firstWord()], Step: uint32(a.number("step", 0))}
	for _, timer := range Timers(a.s) {
		if timer.Kind == c.Kind && (c.Step == 0 || timer.Step == c.Step) {
			c.Due, c.Turn, c.Step = timer.Due, timer.Turn, timer.Step
		}
	}
	if a.has("due") {
		c.Due = epoch + int64(a.seconds("due"))
	}
	return c
}

// bodyHash is what a host hashes: the command without expected_seq and delivery.
func bodyHash(c machine.Command) [32]byte {
	switch x := c.(type) {
	case machine.EmitEvent:
		x.ExpectedSeq, x.Assigned = 0, nil
		c = x
	case machine.CompleteTurn:
		x.ExpectedSeq, x.Assigned = 0, nil
		c = x
	case machine.SetArtifacts:
		x.ExpectedSeq = 0
		c = x
	case machine.FailTurn:
		x.Assigned = nil
		c = x
	}
	return sha256.Sum256(fmt.Appendf(nil, "%T%+v", c, c))
}

// decision is of the call that waits now, unless digest=other.
func (a args) decision() machine.DecideStep {
	verdicts := map[string]machine.Verdict{"approve": machine.Approved, "deny": machine.Refused, "edit": machine.Edited, "lapse": machine.Expired}
	c := machine.DecideStep{Step: uint32(a.number("step", 1)), Verdict: verdicts[a.firstWord()], Reason: a.text("reason")}
	if i := FindStep(a.s.Steps, c.Step); i >= 0 && a.s.Steps[i].Approval != nil && !a.has("digest") {
		c.Digest = a.s.Steps[i].Approval.Digest
	}
	if c.Verdict == machine.Edited {
		c.Payload = value(a.d.Input)
		c.PayloadHash = sha256.Sum256(c.Payload)
	}
	if a.has("expires") {
		c.Expires = epoch + int64(a.seconds("expires"))
	}
	if a.has("starter") {
		c.Starters = []string{a.text("starter")}
	}
	return c
}
