package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
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

// joinWords joins what is not empty.
func joinWords(parts ...string) string {
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

func printWrites(writes []machine.ArtifactWrite) string {
	var out []string
	for _, w := range writes {
		out = append(out, fmt.Sprintf("%s:=%s", w.Name, shorten(w.Value)))
	}
	return strings.Join(out, " ")
}

func printParts(parts []machine.Part) string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Text+shorten(p.Data))
	}
	return strings.Join(out, "|")
}

func printRedirects(redirects []machine.Redirect) string {
	var out []string
	for _, r := range redirects {
		out = append(out, r.State+"("+r.Guard+")")
	}
	if out == nil {
		return ""
	}
	return "refused=" + strings.Join(out, ",")
}

func printFault(name string, f machine.Fault) string {
	if f == (machine.Fault{}) {
		return ""
	}
	return name + "=" + f.Code
}

func printUsage(u machine.Usage) string {
	if u == (machine.Usage{}) {
		return ""
	}
	text := fmt.Sprintf("usage=%d/%d/%d/%d", u.InputTokens, u.OutputTokens, u.CostMicro, u.ToolCalls)
	if u.Model != "" || u.CachedTokens+u.ReasoningTokens > 0 {
		text += fmt.Sprintf("(%s %d/%d)", u.Model, u.CachedTokens, u.ReasoningTokens)
	}
	if u.Estimated {
		text += "~"
	}
	return text
}

var causes = map[machine.Cause]string{machine.CauseEntry: "ENTRY", machine.CauseEvent: "EVENT", machine.CauseMaxVisits: "MAX_VISITS", machine.CauseTimeout: "TIMEOUT", machine.CauseBudget: "BUDGET"}

func printRecord(r machine.Record) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", r.Body), "*machine.")
	return joinWords(fmt.Sprintf("%d %s", r.Seq, kind), printBody(r.Body))
}

func printBody(b machine.Body) string {
	switch b := b.(type) {
	case *machine.Transition:
		return joinWords(fmt.Sprintf("%s -%s-> %s", b.From, b.Event, b.To), opt("visit", b.Visit), opt("total", b.Total),
			"cause="+causes[b.Cause], intendedTarget(b), printRedirects(b.Redirects), printWrites(b.Artifacts), printStood(b.Uncompensated), flag("awaits_input", b.AwaitsInput), flag("conversation", b.Conversation))
	case *machine.InputReceived:
		return joinWords(opt("id", b.MessageID), flag("queued", b.Queued), opt("step", b.Step), printEnvelope(b.Envelope), printParts(b.Parts))
	case *machine.TurnOpened:
		return fmt.Sprintf("%s inputs=%v", b.State, b.Inputs)
	case *machine.TurnAssigned:
		return joinWords(turnName(b.TurnSeq, b.Attempt), fmt.Sprintf("%s/%d", b.Assigned.Worker, b.Assigned.Delivery))
	case *machine.TurnCompleted:
		return joinWords(turnName(b.TurnSeq, b.Attempt), opt("event", b.Event), opt("output", printParts(b.Output)),
			opt("messages", len(b.Messages)), printUsage(b.Usage), printAwaiting("await", b.Await), flag("reply", b.Reply), printSaid(b.ConversationThrough), printWrites(b.Artifacts))
	case *machine.TurnFailed:
		return joinWords(turnName(b.TurnSeq, b.Attempt), printFault("error", b.Error), flag("retryable", b.Retryable),
			opt("next", b.Next), optTime("not_before", b.NotBefore), printUsage(b.Usage), opt("rejected", b.Rejected), printViolation(b.Violation))
	case *machine.TurnAbandoned:
		return joinWords(turnName(b.TurnSeq, b.Attempt), b.Why)
	case *machine.TurnSuspended:
		return joinWords(turnName(b.TurnSeq, b.Attempt), fmt.Sprintf("pending=%v", b.Pending))
	case *machine.TurnReady:
		return turnName(b.TurnSeq, b.Attempt)
	case *machine.ArtifactsSet:
		return printWrites(b.Artifacts)
	case *machine.Paused:
		return b.Note
	case *machine.Resumed:
		return b.Note
	case *machine.Origin:
		return printOrigin(b)
	case *machine.Ended:
		return joinWords(b.Status.String(), b.Reason, opt("lost", b.Event), opt("intended", b.Intended), printRedirects(b.Redirects), printWrites(b.Artifacts), printStood(b.Uncompensated))
	case *machine.CompensationStarted:
		end := ""
		if b.Status != machine.StatusUnset {
			end = b.Status.String()
		}
		return joinWords(end, b.Reason, opt("event", b.Event), opt("intended", b.Intended), fmt.Sprintf("undo=%v", b.Effects), opt("pending", fmt.Sprint(b.Pending)), printRedirects(b.Redirects), printWrites(b.Artifacts))
	}
	return printStepBody(b)
}

func intendedTarget(b *machine.Transition) string {
	if b.Intended == b.To {
		return ""
	}
	return "intended=" + b.Intended
}

func turnName(seq uint64, attempt int) string { return fmt.Sprintf("turn=%d/%d", seq, attempt) }

func printStepBody(b machine.Body) string {
	switch b := b.(type) {
	case *machine.StepRequested:
		return joinWords(fmt.Sprintf("step=%d/%d key=%s %s%s", b.Step, b.Attempt, b.Key, b.Tool, b.Payload),
			fmt.Sprintf("turn=%d", b.TurnSeq), flag("reframe", b.Reframe), optTime("deadline", b.Deadline), flag("delegation", b.Delegation), flag("local", b.Local), flag("held", b.Hold != nil), flag("by_caller", b.ByCaller), flag("repeatable", b.Repeatable), printAbout(b.About), printAsked(b), printPolicy(b.Policy))
	case *machine.StepResolved:
		return joinWords(fmt.Sprintf("step=%d/%d %s", b.Step, b.Attempt, b.Tool), flag("ok", b.OK), shorten(b.Result),
			printFault("error", b.Error), flag("unknown", b.Unknown), opt("next", b.Next), optTime("deadline", b.Deadline),
			opt("worker", b.Worker), optTime("not_before", b.NotBefore), printUsage(b.Usage), printWrites(b.Artifacts), printAnswer(b.Answer))
	case *machine.Steered:
		return fmt.Sprintf("%q when=%d", b.Text, b.When)
	case *machine.Stopped:
		return joinWords(turnName(b.TurnSeq, b.Attempt), b.Note, printSaid(b.ConversationThrough), opt("calls", printCalls(b.Calls)))
	case *machine.NoticeAdded:
		return fmt.Sprintf("%s %q", b.Code, b.Text)
	case *machine.ModelUpdated:
		return joinWords(fmt.Sprintf("step=%d/%d", b.Step, b.Attempt), opt("response", b.ResponseID), flag("changed", b.Changed), printUsage(b.Usage))
	case *machine.BudgetRaised:
		return joinWords(fmt.Sprintf("%d/%d -> %d/%d", b.From.Tokens, b.From.CostMicro, b.To.Tokens, b.To.CostMicro), b.Reason)
	case *machine.NoChange:
		return fmt.Sprintf("%s id=%s", b.Command, b.ID)
	case *machine.StepRejected:
		return joinWords("key="+b.Key, b.Tool, b.Denial.Code)
	case *machine.OutputWritten:
		return joinWords(turnName(b.TurnSeq, b.Attempt), "artifact="+b.Piece.ID, flag("append", b.Piece.Append), flag("last", b.Piece.Last), printParts(b.Piece.Parts))
	case *machine.StepDelegated:
		return joinWords(fmt.Sprintf("step=%d/%d %s", b.Step, b.Attempt, b.Tool), printRemote(&b.Remote), printParts(b.Question))
	case *machine.StepOutcomeUnknown:
		return joinWords(fmt.Sprintf("step=%d/%d %s", b.Step, b.Attempt, b.Tool), printFault("error", b.Error), opt("worker", b.Worker), opt("by", b.By))
	case *machine.StepDecided:
		return joinWords(fmt.Sprintf("step=%d %s", b.Step, b.Tool), b.Verdict.String(), string(b.Payload), opt("reason", b.Reason), optTime("expires", b.Expires), optTime("deadline", b.Deadline))
	case *machine.StepCancelled:
		return joinWords(fmt.Sprintf("step=%d %s", b.Step, b.Tool), b.Why, printUsage(b.Usage))
	}
	return fmt.Sprintf("%+v", b)
}

func printAbout(a *machine.About) string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf("%s=%d(%d,%d)", map[machine.StepRole]string{machine.RoleReconcile: "reconciles", machine.RoleCompensate: "compensates"}[a.Role], a.Step, a.PayloadSeq, a.AnswerSeq)
}

func printStood(list []machine.UncompensatedEffect) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%d %s by %d %s", s.Step, s.Tool, s.By, s.Code))
	}
	if out == nil {
		return ""
	}
	return "stands=" + strings.Join(out, ",")
}

// printAsked prints what a request to a model adds: its bound, and whether this record has the
// request or the record before has it.
func printAsked(b *machine.StepRequested) string {
	if b.Kind != machine.KindModel {
		bound := strings.Replace(printUsage(b.Bound), "usage", "bound", 1)
		if b.Call != nil {
			return joinWords(fmt.Sprintf("call=%d/%d", b.Call.Step, b.Call.Index), bound)
		}
		return bound
	}
	return joinWords("model", flag("as before", b.Model == nil), flag("changed", b.Changed), strings.Replace(printUsage(b.Bound), "usage", "bound", 1))
}

func printPolicy(p *machine.ToolPolicy) string {
	if p == nil {
		return ""
	}
	allow := ""
	if p.Limited {
		allow = fmt.Sprint("allow=", p.Allow)
	}
	return joinWords(allow, opt("block", strings.Join(p.Block, ",")), flag("named", p.Named))
}

func printAnswer(a *machine.ModelAnswer) string {
	if a == nil {
		return ""
	}
	return joinWords("answer="+printParts(a.Parts), opt("calls", len(a.Calls)), opt("response", a.ResponseID))
}

func printSaid(s machine.StepRef) string {
	if s.Step == 0 {
		return ""
	}
	return fmt.Sprintf("said=%d(%d,%d)", s.Step, s.Request, s.Answer)
}

// printCalls are the steps that answer calls; 0: none does.
func printCalls(calls []machine.StepRef) string {
	var steps []string
	for _, said := range calls {
		steps = append(steps, fmt.Sprint(said.Step))
	}
	return strings.Join(steps, ",")
}

var awaitings = map[machine.Awaiting]string{machine.AwaitInput: "input", machine.AwaitAuth: "auth"}

func printAwaiting(name string, a machine.Awaiting) string { return opt(name, awaitings[a]) }

func printEnvelope(e *machine.Envelope) string {
	if e == nil {
		return ""
	}
	return "message=" + e.MessageID
}

func printRemote(r *machine.Remote) string {
	return joinWords(opt("task", r.TaskID), opt("card", r.CardURL), printAwaiting("asking", r.Asking), opt("answer", r.Answer), opt("sent", sendingNames[r.Sent]))
}

var sendingNames = map[machine.Sending]string{machine.SentOnce: "once", machine.SentRepeatable: "repeatable", machine.SentNot: "not"}

var timerKinds = map[machine.TimerKind]string{machine.TimerWall: "wall", machine.TimerRetry: "retry", machine.TimerState: "state", machine.TimerStep: "step"}

func printTimer(t machine.Timer) string {
	return joinWords(timerKinds[t.Kind]+printTime(t.Due), opt("step", t.Step), opt("turn", t.Turn))
}

var outboxKinds = map[machine.OutboxKind]string{machine.OutboxStep: "step", machine.OutboxDelegation: "delegation", machine.OutboxCancel: "cancel"}

func printOutbox(r machine.OutboxRow) string {
	return fmt.Sprintf("%s %d/%d due=%s", outboxKinds[r.Kind], r.Step, r.Attempt, printTime(r.Due))
}

// batch prints the records of a batch, and everything else that the batch changes.
func (p *printer) batch(b *machine.Batch) {
	for _, r := range b.Records {
		p.line("%s", printRecord(r))
	}
	for _, d := range b.Consumed {
		p.line("  consumed %s records %d..%d", joinWords(opt("principal", d.Principal), d.ID), d.First, d.Last)
	}
	for _, e := range b.Effects {
		p.line("  effect of step %d %s", e.Step, effectOps[e.Op])
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

var effectOps = map[machine.EffectOp]string{machine.EffectTaken: "taken", machine.EffectDone: "done", machine.EffectFreed: "freed"}

// printState is the one line that says where a run stands.
func printState(s *machine.State) string {
	turn := ""
	if s.Turn != nil {
		turn = joinWords(turnName(s.Turn.Seq, s.Turn.Attempt), flag("suspended", s.Turn.Suspended), optTime("not_before", s.Turn.NotBefore))
	}
	return joinWords("= "+s.Status.String(), printAwaiting("for", s.Awaiting), s.Reason, flag("paused", s.Paused), s.Current, turn)
}

var dispositions = map[machine.Disposition]string{
	machine.IgnoredTerminal: "IGNORED_TERMINAL", machine.IgnoredStale: "IGNORED_STALE",
	machine.IgnoredDuplicate: "IGNORED_DUPLICATE", machine.DispEscalated: "ESCALATED",
}

var stepStatuses = map[machine.StepStatus]string{
	machine.StepStatusPending: "pending", machine.StepStatusOK: "ok", machine.StepStatusError: "error", machine.StepStatusCancelled: "cancelled",
}

func printOutcome(o machine.StepOutcome) string {
	if o.Denial != nil {
		return fmt.Sprintf("-> key=%s denied %s", o.Key, o.Denial.Code)
	}
	return joinWords(fmt.Sprintf("-> key=%s step=%d %s", o.Key, o.Step, stepStatuses[o.Status]), flag("replayed", o.Replayed), opt("asked", o.PayloadSeq), opt("answer", o.AnswerSeq))
}

func printRefusal(err error) string {
	r, ok := err.(*machine.Error)
	if !ok {
		return "error " + err.Error()
	}
	codes := map[machine.Code]string{
		machine.CodeInvalidArgument: "INVALID_ARGUMENT", machine.CodeNotFound: "NOT_FOUND", machine.CodeAlreadyExists: "ALREADY_EXISTS",
		machine.CodePermissionDenied: "PERMISSION_DENIED", machine.CodeFailedPrecondition: "FAILED_PRECONDITION", machine.CodeAborted: "ABORTED",
		machine.CodeResourceExhausted: "RESOURCE_EXHAUSTED", machine.CodeInternal: "INTERNAL",
	}
	allowed := ""
	if r.Allowed != nil {
		allowed = fmt.Sprintf("allowed=%v", r.Allowed)
	}
	return joinWords("refused", codes[r.Code], r.Error(), allowed, opt("limit", r.Limit), opt("got", r.Got), opt("seq", r.Seq))
}

func printViolation(v *machine.Violation) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("violates=%s(%s at %q)", v.ID, v.Type, v.Place)
}
