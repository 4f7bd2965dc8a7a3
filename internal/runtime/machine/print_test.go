package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// epoch is time 0 of scenarios; times are printed as seconds since then.
const epoch = int64(1_700_000_000) * int64(time.Second)

func printTime(at int64) string {
	if at == 0 {
		return "0"
	}
	return "+" + time.Duration(at-epoch).String()
}

// printer writes one thing a line, empty fields left out.
type printer struct{ strings.Builder }

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(p, format, args...)
	p.WriteByte('\n')
}

// words joins what is not empty.
func words(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// opt is "name=value" unless the value is zero.
func opt[T comparable](name string, value T) string {
	var zero T
	if value == zero {
		return ""
	}
	return fmt.Sprintf("%s=%v", name, value)
}

func optTime(name string, at int64) string {
	if at == 0 {
		return ""
	}
	return name + "=" + printTime(at)
}

func flag(name string, on bool) string {
	if on {
		return name
	}
	return ""
}

func shorten(v []byte) string {
	if len(v) > 60 {
		return fmt.Sprintf("%.8s..(%d bytes)", v, len(v))
	}
	return string(v)
}

func printWrites(writes []ArtifactWrite) string {
	var out []string
	for _, w := range writes {
		out = append(out, fmt.Sprintf("%s:=%s", w.Name, shorten(w.Value)))
	}
	return strings.Join(out, " ")
}

func printParts(parts []Part) string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Text+shorten(p.Data))
	}
	return strings.Join(out, "|")
}

func printRedirects(redirects []Redirect) string {
	var out []string
	for _, r := range redirects {
		out = append(out, r.State+"("+r.Guard+")")
	}
	if out == nil {
		return ""
	}
	return "refused=" + strings.Join(out, ",")
}

func printFault(name string, f Fault) string {
	if f == (Fault{}) {
		return ""
	}
	return name + "=" + f.Code
}

func printUsage(u Usage) string {
	if u == (Usage{}) {
		return ""
	}
	return fmt.Sprintf("usage=%d/%d/%d/%d", u.InputTokens, u.OutputTokens, u.CostMicro, u.ToolCalls)
}

var causes = map[Cause]string{CauseEntry: "ENTRY", CauseEvent: "EVENT", CauseMaxVisits: "MAX_VISITS", CauseTimeout: "TIMEOUT"}

func printRecord(r Record) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", r.Body), "*machine.")
	return words(fmt.Sprintf("%d %s", r.Seq, kind), printBody(r.Body))
}

func printBody(b Body) string {
	switch b := b.(type) {
	case *Transition:
		return words(fmt.Sprintf("%s -%s-> %s", b.From, b.Event, b.To), opt("visit", b.Visit), opt("total", b.Total),
			"cause="+causes[b.Cause], intended(b), printRedirects(b.Redirects), printWrites(b.Artifacts))
	case *InputReceived:
		return words(opt("id", b.MessageID), flag("queued", b.Queued), opt("step", b.Step), printEnvelope(b.Envelope), printParts(b.Parts))
	case *TurnOpened:
		return fmt.Sprintf("%s inputs=%v", b.State, b.Inputs)
	case *TurnAssigned:
		return words(turnName(b.TurnSeq, b.Attempt), fmt.Sprintf("%s/%d", b.Assigned.Worker, b.Assigned.Delivery))
	case *TurnCompleted:
		return words(turnName(b.TurnSeq, b.Attempt), opt("event", b.Event), opt("output", printParts(b.Output)),
			opt("messages", len(b.Messages)), printUsage(b.Usage), printAwaiting("await", b.Await), flag("reply", b.Reply), printWrites(b.Artifacts))
	case *TurnFailed:
		return words(turnName(b.TurnSeq, b.Attempt), printFault("error", b.Error), flag("retryable", b.Retryable),
			opt("next", b.Next), optTime("not_before", b.NotBefore), printUsage(b.Usage))
	case *TurnAbandoned:
		return words(turnName(b.TurnSeq, b.Attempt), b.Why)
	case *TurnSuspended:
		return words(turnName(b.TurnSeq, b.Attempt), fmt.Sprintf("pending=%v", b.Pending))
	case *TurnReady:
		return turnName(b.TurnSeq, b.Attempt)
	case *ArtifactsSet:
		return printWrites(b.Artifacts)
	case *Paused:
		return b.Note
	case *Resumed:
		return b.Note
	case *Origin:
		return printOrigin(b)
	case *Ended:
		return words(b.Status.String(), b.Reason, opt("lost", b.Event), opt("intended", b.Intended), printRedirects(b.Redirects), printWrites(b.Artifacts))
	}
	return printStepBody(b)
}

func intended(b *Transition) string {
	if b.Intended == b.To {
		return ""
	}
	return "intended=" + b.Intended
}

func turnName(seq uint64, attempt int) string { return fmt.Sprintf("turn=%d/%d", seq, attempt) }

func printStepBody(b Body) string {
	switch b := b.(type) {
	case *StepRequested:
		return words(fmt.Sprintf("step=%d/%d key=%s %s%s", b.Step, b.Attempt, b.Key, b.Tool, b.Payload),
			fmt.Sprintf("turn=%d", b.TurnSeq), flag("reframe", b.Reframe), optTime("deadline", b.Deadline), flag("delegation", b.Delegation))
	case *StepResolved:
		return words(fmt.Sprintf("step=%d/%d %s", b.Step, b.Attempt, b.Tool), flag("ok", b.OK), shorten(b.Result),
			printFault("error", b.Error), flag("unknown", b.Unknown), opt("next", b.Next), optTime("deadline", b.Deadline),
			opt("worker", b.Worker), printUsage(b.Usage), printWrites(b.Artifacts))
	case *Noted:
		return fmt.Sprintf("%s id=%s", b.Command, b.ID)
	case *StepRejected:
		return words("key="+b.Key, b.Tool, b.Denial.Code)
	case *OutputWritten:
		return words(turnName(b.TurnSeq, b.Attempt), "artifact="+b.Piece.ID, flag("append", b.Piece.Append), flag("last", b.Piece.Last), printParts(b.Piece.Parts))
	case *StepDelegated:
		return words(fmt.Sprintf("step=%d/%d %s", b.Step, b.Attempt, b.Tool), printRemote(&b.Remote), printParts(b.Question))
	case *StepCancelled:
		return words(fmt.Sprintf("step=%d %s", b.Step, b.Tool), b.Why)
	}
	return fmt.Sprintf("%+v", b)
}

var awaitings = map[Awaiting]string{AwaitInput: "input", AwaitAuth: "auth"}

func printAwaiting(name string, a Awaiting) string { return opt(name, awaitings[a]) }

func printEnvelope(e *Envelope) string {
	if e == nil {
		return ""
	}
	return "message=" + e.MessageID
}

func printRemote(r *Remote) string {
	return words(opt("task", r.TaskID), opt("card", r.CardURL), printAwaiting("asking", r.Asking), opt("answer", r.Answer))
}

var timerKinds = map[TimerKind]string{TimerWall: "wall", TimerRetry: "retry", TimerState: "state", TimerStep: "step"}

func printTimer(t Timer) string {
	return words(timerKinds[t.Kind]+printTime(t.Due), opt("step", t.Step), opt("turn", t.Turn))
}

var outboxKinds = map[OutboxKind]string{OutboxStep: "step", OutboxDelegation: "delegation", OutboxCancel: "cancel"}

func printOutbox(r OutboxRow) string {
	return fmt.Sprintf("%s %d/%d due=%s", outboxKinds[r.Kind], r.Step, r.Attempt, printTime(r.Due))
}

// printBatch writes the records and whatever else the batch changes.
func (p *printer) batch(b *Batch) {
	for _, r := range b.Records {
		p.line("%s", printRecord(r))
	}
	for _, d := range b.Consumed {
		p.line("  consumed %s records %d..%d", words(opt("principal", d.Principal), d.ID), d.First, d.Last)
	}
	for _, m := range b.Messages {
		p.line("  message %s[%d] = record %d", m.State, m.N, m.Seq)
	}
	for _, t := range b.TimersCleared {
		p.line("  timer cleared %s", printTimer(t))
	}
	for _, t := range b.TimersSet {
		p.line("  timer set %s", printTimer(t))
	}
	for _, r := range b.OutboxRemoved {
		p.line("  outbox removed %s", printOutbox(r))
	}
	for _, r := range b.OutboxAdded {
		p.line("  outbox added %s", printOutbox(r))
	}
	if b.ReadyChanged {
		p.line("  ready %v", b.Ready)
	}
}

// printState is the one line that says where a run stands.
func printState(s *State) string {
	turn := ""
	if s.Turn != nil {
		turn = words(turnName(s.Turn.Seq, s.Turn.Attempt), flag("suspended", s.Turn.Suspended), optTime("not_before", s.Turn.NotBefore))
	}
	return words("= "+s.Status.String(), printAwaiting("for", s.Awaiting), s.Reason, flag("paused", s.Paused), s.Current, turn)
}

var dispositions = map[Disposition]string{
	IgnoredTerminal: "IGNORED_TERMINAL", IgnoredStale: "IGNORED_STALE",
	IgnoredDuplicate: "IGNORED_DUPLICATE", DispEscalated: "ESCALATED",
}

var stepStatuses = map[StepStatus]string{
	StepStatusPending: "pending", StepStatusOK: "ok", StepStatusError: "error", StepStatusCancelled: "cancelled",
}

func printOutcome(o StepOutcome) string {
	if o.Denial != nil {
		return fmt.Sprintf("-> key=%s denied %s", o.Key, o.Denial.Code)
	}
	return words(fmt.Sprintf("-> key=%s step=%d %s", o.Key, o.Step, stepStatuses[o.Status]), flag("replayed", o.Replayed), opt("answer", o.AnswerSeq))
}

func printRefusal(err error) string {
	r, ok := err.(*Refusal)
	if !ok {
		return "error " + err.Error()
	}
	codes := map[Code]string{
		CodeInvalidArgument: "INVALID_ARGUMENT", CodeNotFound: "NOT_FOUND", CodeAlreadyExists: "ALREADY_EXISTS",
		CodePermissionDenied: "PERMISSION_DENIED", CodeFailedPrecondition: "FAILED_PRECONDITION", CodeAborted: "ABORTED",
		CodeResourceExhausted: "RESOURCE_EXHAUSTED", CodeInternal: "INTERNAL",
	}
	allowed := ""
	if r.Allowed != nil {
		allowed = fmt.Sprintf("allowed=%v", r.Allowed)
	}
	return words("refused", codes[r.Code], r.Error(), allowed, opt("limit", r.Limit), opt("got", r.Got), opt("seq", r.Seq))
}
