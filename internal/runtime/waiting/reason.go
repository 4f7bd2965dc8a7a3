package waiting

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// Kind is the kind of thing that a run waits for.
type Kind uint8

const (
	// Nothing means that the run has ended, that it was imported for inspection, or that it continues
	// by itself now.
	Nothing Kind = iota
	// Approval means that a person has to decide about a call that waits for approval.
	Approval
	// NoWorker means that no worker has received the turn or the step yet.
	NoWorker
	// Worker means that a worker has the turn or the step.
	Worker
	// Limit means that a call waits until the operator's rate limits allow it.
	Limit
	// Timer means that only the timeout of the state can move the run to the next state.
	Timer
	// Input means that a person has to send an input or to answer an agent's question.
	Input
	// Event means that the run leaves its state by an event from outside.
	Event
	// Paused means that the run is paused.
	Paused
	// Delegation means that an agent is executing a step.
	Delegation
	// Retry means that the next attempt of the turn or the step begins later, after a pause.
	Retry
	// Caller means that the program that calls the API executes the turn or the step.
	Caller
	// Sidecar means that the sidecar itself executes the turn or makes the call.
	Sidecar
)

// Reason is what a run waits for. The kind determines which fields are set. Times are in Unix
// nanoseconds. A time of 0 means that there is none, or that it is not known.
type Reason struct {
	Kind Kind
	// Since is the time when the wait began. Due is the time when the wait ends by itself.
	Since, Due int64
	// Step is the number of the step that the run waits for. Tool is its tool or agent. For a model
	// call, Model is set instead.
	Step        uint32
	Tool, Model string
	// Prompt is the prompt of the turn that the run waits for.
	Prompt string
	// Attempt is the number of the attempt of the turn or step.
	Attempt int
	// Held describes the worker that has the turn or step.
	Held dispatch.Held
	// Unfit are connected workers that do not get the work, with the reasons. Connected is the number
	// of all connected workers.
	Unfit     []dispatch.Unfit
	Connected int
	// Limit describes the call that waits for the operator's rate limits.
	Limit ratelimit.Wait
	// Events are the events by which the run can leave its state, sorted.
	Events []string
	// By is the principal that paused the run.
	By string
	// NotStarter means that the principal that started the run may not decide about the call. Escalate
	// means that the run ends if no decision is made in time.
	NotStarter, Escalate bool
	// TaskID is the id of the agent's task.
	TaskID string
	// Auth means that the run waits for an authorisation before it waits for an input.
	Auth bool
	// Own means that only the sidecar itself may execute the turn or step.
	Own bool
}

// Sentence describes to a person what the run waits for. It is "" if the run waits for nothing. Times
// are in UTC.
func (r *Reason) Sentence() string {
	switch r.Kind {
	case Approval:
		return r.approval()
	case NoWorker:
		return r.noWorker()
	case Worker:
		return r.worker()
	case Limit:
		return r.limit()
	case Timer:
		return fmt.Sprintf("The timeout of the state moves the run%s with the event %s.", atText(r.Due), strings.Join(r.Events, ", "))
	case Input:
		return r.input()
	case Event:
		return fmt.Sprintf("The run waits for an event from outside%s: %s.%s", sinceText(r.Since), strings.Join(r.Events, ", "), r.timeout())
	case Paused:
		if r.By == "" {
			return "The run is paused."
		}
		return fmt.Sprintf("%s paused the run%s.", r.By, atText(r.Since))
	case Delegation:
		return fmt.Sprintf("The agent %s executes step %d%s.%s", r.Tool, r.Step, sinceText(r.Since), r.deadline())
	case Retry:
		return fmt.Sprintf("Attempt %d of %s begins%s.", r.Attempt, r.work(), atText(r.Due))
	case Caller:
		return fmt.Sprintf("The program that started the run executes %s. The sidecar has not heard from it%s.", r.work(), sinceText(r.Since))
	case Sidecar:
		return fmt.Sprintf("The sidecar itself executes %s%s.", r.work(), sinceText(r.Since))
	}
	return ""
}

// Brief tells the sender of an A2A task what the task waits for. It names no worker, principal, tool or limit, because the sender may be unknown
// to the operator. It is "" if the run waits for nothing. Times are UTC.
func (r *Reason) Brief() string {
	text := map[Kind]string{
		Approval:   "A call waits for the approval of a person",
		NoWorker:   "The task waits for a worker",
		Worker:     "A worker executes the task",
		Limit:      "A call waits for a limit of the operator",
		Timer:      "The task waits for a timeout",
		Input:      "The task waits for an input",
		Event:      "The task waits for an event from outside",
		Paused:     "The task is paused",
		Delegation: "Another agent executes a part of the task",
		Retry:      "The task waits for the next attempt",
		Caller:     "The program that started the run executes the task",
		Sidecar:    "The sidecar executes the task",
	}[r.Kind]
	switch {
	case text == "":
		return ""
	case r.Kind == Retry || r.Kind == Timer:
		return text + bracketed(atText(r.Due)) + "."
	}
	return text + bracketed(sinceText(r.Since)) + "."
}

func bracketed(clause string) string {
	if clause == "" {
		return ""
	}
	return " (" + strings.TrimPrefix(clause, " ") + ")"
}

// work returns the words for the step or the turn in a sentence.
func (r *Reason) work() string {
	switch {
	case r.Model != "":
		return fmt.Sprintf("the call of the model %s (step %d)", r.Model, r.Step)
	case r.Step != 0:
		return fmt.Sprintf("step %d (%s)", r.Step, r.Tool)
	}
	return "the turn of the prompt " + r.Prompt
}

// approval returns the sentence for a call that waits for a decision.
func (r *Reason) approval() string {
	who := "A principal with the scope steps:approve"
	if r.NotStarter {
		who += " that did not start the run"
	}
	end := "the call is denied"
	if r.Escalate {
		end = "the run ends"
	}
	out := fmt.Sprintf("Step %d (%s) waits for approval%s. %s may decide.", r.Step, r.Tool, sinceText(r.Since), who)
	if r.Due != 0 {
		out += fmt.Sprintf(" Without a decision, %s%s.", end, atText(r.Due))
	}
	return out
}

// noWorker returns the sentence for work that no worker has, with the reason for each connected worker.
func (r *Reason) noWorker() string {
	has := "No worker has "
	if r.Own {
		has = "The sidecar itself must execute and has not taken "
	}
	out := has + r.work() + sinceText(r.Since)
	switch {
	case r.Own && r.Connected == 0:
		return out + ": it executes no such work. Configure a model or the MCP server."
	case r.Connected == 0:
		return out + ": no worker is connected."
	}
	words := make([]string, 0, len(r.Unfit)+1)
	for _, u := range r.Unfit {
		words = append(words, u.Worker+" "+unfitWords(&u, r.Step != 0))
	}
	if n := r.Connected - len(r.Unfit); n > 0 {
		words = append(words, fmt.Sprintf("and %d more", n))
	}
	return out + ": " + strings.Join(words, ", ") + "."
}

func unfitWords(u *dispatch.Unfit, step bool) string {
	switch u.Cause {
	case dispatch.UnfitOtherPack:
		return "serves other packs"
	case dispatch.UnfitNoCapacity:
		if step {
			return "executes no steps"
		}
		return "executes no turns"
	case dispatch.UnfitDraining:
		return "is stopping"
	case dispatch.UnfitFull:
		return "is full" + loadWords(u.Load, step)
	case dispatch.UnfitNoCredit:
		return "requests no more work"
	case dispatch.UnfitFree:
		return "gets it next"
	}
	return "does not serve it"
}

// loadWords says what fills a worker.
func loadWords(l dispatch.Load, step bool) string {
	if step {
		return fmt.Sprintf(" (steps: %d)", l.Work)
	}
	words := []string{fmt.Sprintf("turns: %d", l.Work)}
	if l.ApprovalWaits > 0 {
		words = append(words, fmt.Sprintf("%d with a call that waits for approval", l.ApprovalWaits))
	}
	if l.StepWaits > 0 {
		words = append(words, fmt.Sprintf("%d with a call that has no answer yet", l.StepWaits))
	}
	return " (" + strings.Join(words, ", ") + ")"
}

func (r *Reason) worker() string {
	if r.Held.Lost {
		return fmt.Sprintf("The worker %s has %s and is disconnected. The step waits until it reconnects, or its outcome is unknown.", r.Held.Worker, r.work())
	}
	out := fmt.Sprintf("The worker %s has %s%s. Its last request was%s", r.Held.Worker, r.work(), sinceText(r.Since), atText(r.Held.Seen))
	if r.Held.Output != 0 {
		out += ", its last output" + atText(r.Held.Output)
	}
	return out + "." + r.deadline()
}

// limit returns the sentence for a call that waits for rate limits.
func (r *Reason) limit() string {
	names := make([]string, len(r.Limit.Limits))
	for i, id := range r.Limit.Limits {
		names[i] = id
		if key := r.Limit.Keys[i]; key != "" && key != id {
			names[i] += " (" + key + ")"
		}
	}
	what := "The call of the model " + r.Model
	if r.Model == "" {
		what = fmt.Sprintf("Step %d (%s)", r.Step, r.Tool)
	}
	out := fmt.Sprintf("%s waits for the limit %s%s", what, strings.Join(names, ", "), sinceText(r.Since))
	if r.Limit.Ahead > 0 {
		out += fmt.Sprintf(", %d before it", r.Limit.Ahead)
	}
	return out + "."
}

func (r *Reason) input() string {
	what := "an input"
	if r.Auth {
		what = "an authorisation and then an input"
	}
	if r.Step != 0 {
		return fmt.Sprintf("The agent %s (step %d) waits for %s%s.%s", r.Tool, r.Step, what, sinceText(r.Since), r.timeout())
	}
	return fmt.Sprintf("The run waits for %s%s.%s", what, sinceText(r.Since), r.timeout())
}

func (r *Reason) timeout() string {
	if r.Due == 0 {
		return ""
	}
	return fmt.Sprintf(" Its state times out%s.", atText(r.Due))
}

// deadline returns a sentence with the deadline of the step, or "" if there is none.
func (r *Reason) deadline() string {
	if r.Due == 0 || r.Step == 0 {
		return ""
	}
	return fmt.Sprintf(" The step times out%s.", atText(r.Due))
}

func sinceText(t int64) string { return clause(" since ", t) }
func atText(t int64) string    { return clause(" at ", t) }

func clause(word string, t int64) string {
	if t == 0 {
		return ""
	}
	return word + time.Unix(0, t).UTC().Format(time.RFC3339)
}

// stepReason returns a reason of the given kind that is about a step.
func stepReason(kind Kind, p *machine.ToolStep) *Reason {
	out := &Reason{Kind: kind, Step: p.Step, Tool: p.Tool, Attempt: p.Attempt, Due: p.Deadline}
	if p.Model != nil {
		out.Tool, out.Model = "", p.Tool
	}
	return out
}
