package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Driver executes a script (recorded answers and events) on one run, through the run service. Its principal needs
// every scope.
type Driver struct {
	Runs pawlv1.RunServiceClient
	// Clock is the engine's clock; the script advances it.
	Clock *Clock
	// Types are the media types of the pack's artifacts, by name.
	Types map[string]string
	// States and Agents are the possible entries of a run of the pack.
	States, Agents []string
}

// Result is the result of a script.
type Result struct {
	// RunID is empty if the run could not be started.
	RunID string
	// Refused is the error of the first refused request, a gRPC status. The script stopped at this
	// request. It is nil if no request was refused.
	Refused error
	// Answer is the index of the script's item whose request was refused, or of the last executed item if none was
	// refused. It is -1 if the start of the run was refused.
	Answer int
	// Warnings are parts of the script that had no effect.
	Warnings []string
}

// Play starts a run of a registered pack and executes the script on it, until the script is finished, the run has
// ended or a request is refused. The error is for a context that was cancelled, and for values of the script that cannot
// be converted. Every other gRPC error counts as a refusal, also a lost connection.
func (d *Driver) Play(ctx context.Context, pack string, f *File) (*Result, error) {
	r := &Result{Answer: -1}
	req, err := d.Start(pack, f)
	if err != nil {
		return nil, err
	}
	started, err := d.Runs.StartRun(ctx, req)
	if err != nil {
		return r, r.refuse(err)
	}
	r.RunID = started.GetRun().GetRunId()
	ended := terminal(started.GetRun().GetStatus())
	for i := range f.Turns {
		if ended {
			r.warn("%d answer(s) left over: the run had ended before turns[%d]", len(f.Turns)-i, i)
			return r, nil
		}
		r.Answer = i
		if ended, err = d.item(ctx, r, i, &f.Turns[i]); err != nil {
			return r, r.refuse(err)
		}
	}
	return r, nil
}

// item executes one item of a script of recorded answers, as many times as its field repeat says.
func (d *Driver) item(ctx context.Context, r *Result, i int, a *Answer) (ended bool, err error) {
	p := &execution{Driver: d, result: r, run: r.RunID, at: fmt.Sprintf("turns[%d]", i)}
	for n := range max(1, a.Repeat) {
		if ended {
			r.warn("%s: the run had ended after %d of %d times", p.at, n, a.Repeat)
			return true, nil
		}
		if ended, err = p.answer(ctx, a); err != nil {
			return false, err
		}
	}
	return ended, nil
}

// refuse stores a gRPC error as the refusal that stops the script. It returns every other error, and the gRPC error for a
// cancelled context.
func (r *Result) refuse(err error) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() == codes.Canceled {
		return err
	}
	r.Refused = err
	return nil
}

func (r *Result) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// Start returns the request that starts the run of a registered pack, with execution CALLER.
func (d *Driver) Start(pack string, f *File) (*pawlv1.StartRunRequest, error) {
	input, err := Parts(f.Input)
	if err != nil {
		return nil, &Error{[]string{"input: " + err.Error()}}
	}
	req := &pawlv1.StartRunRequest{Pack: pack, Execution: pawlv1.Execution_EXECUTION_CALLER, Input: input}
	if f.Variables != nil {
		vars, err := encode(f.Variables)
		if err != nil {
			return nil, &Error{[]string{"variables: " + err.Error()}}
		}
		req.VariablesJson = vars
	}
	member, ok := strings.CutPrefix(f.Entry, "agent:")
	ok = ok || slices.Contains(d.Agents, member) && !slices.Contains(d.States, member)
	if ok {
		req.Entry = &pawlv1.StartRunRequest_Agent{Agent: member}
	} else if f.Entry != "" {
		req.Entry = &pawlv1.StartRunRequest_State{State: f.Entry}
	}
	return req, nil
}

func terminal(s pawlv1.RunStatus) bool { return s >= pawlv1.RunStatus_RUN_STATUS_COMPLETED }

// execution is the execution of one item of a script.
type execution struct {
	*Driver
	result *Result
	run    string
	// at names the item in errors, for example "turns[3]".
	at string
}

// answer executes one item and reports whether the run has ended.
func (p *execution) answer(ctx context.Context, a *Answer) (ended bool, err error) {
	if err := p.assert(ctx, a.State); err != nil {
		return false, err
	}
	switch {
	case a.External != "":
		return p.external(ctx, a)
	case a.Input != nil:
		return p.input(ctx, a)
	case a.After != 0:
		p.Clock.Advance(a.After)
		return p.settle(ctx)
	case a.Cancel != "":
		got, err := p.Runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: p.run, Note: a.Cancel})
		return terminal(got.GetStatus()), err
	}
	return p.turn(ctx, a)
}

// assert returns an error if the run is not in the given state, which the item of the script names.
func (p *execution) assert(ctx context.Context, state string) error {
	if state == "" {
		return nil
	}
	got, err := p.Runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: p.run})
	if err != nil || got.GetRun().GetState() == state {
		return err
	}
	text := fmt.Sprintf("%s.state is %q, but the run is in state %q", p.at, state, got.GetRun().GetState())
	s, err := status.New(codes.FailedPrecondition, text).WithDetails(&errdetails.ErrorInfo{
		Domain: "pawl.dev", Reason: "STATE_ASSERTION",
		Metadata: map[string]string{"field": p.at + ".state", "allowed": got.GetRun().GetState()},
	})
	if err != nil {
		return err
	}
	return s.Err()
}

func (p *execution) external(ctx context.Context, a *Answer) (bool, error) {
	artifacts, err := p.artifacts(a)
	if err != nil {
		return false, err
	}
	got, err := p.Runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: p.run, Event: a.External, Artifacts: artifacts})
	return terminal(got.GetStatus()), err
}

func (p *execution) input(ctx context.Context, a *Answer) (bool, error) {
	content, err := Parts(a.Input)
	if err != nil {
		return false, &Error{[]string{p.at + ".input: " + err.Error()}}
	}
	got, err := p.Runs.SendInput(ctx, &pawlv1.SendInputRequest{RunId: p.run, Parts: content})
	return terminal(got.GetStatus()), err
}

func (p *execution) artifacts(a *Answer) ([]*pawlv1.ArtifactWrite, error) {
	out, err := writes(a.Artifacts, p.Types)
	if err != nil {
		return nil, &Error{[]string{p.at + "." + err.Error()}}
	}
	return out, nil
}

// settle waits until every timer of the run that is due has fired. The engine fires timers by itself, so settle
// follows the run's records until no timer is overdue.
func (p *execution) settle(ctx context.Context) (ended bool, err error) {
	for {
		got, err := p.Runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: p.run})
		if err != nil || terminal(got.GetRun().GetStatus()) {
			return err == nil, err
		}
		if !p.overdue(got.GetRun()) {
			return false, nil
		}
		if err := p.next(ctx, got.GetRun().GetSeq()); err != nil {
			return false, err
		}
	}
}

// overdue reports whether one of the run's timers should have fired. It does not look at the pause before a further
// attempt of a turn, which open skips.
func (p *execution) overdue(r *pawlv1.Run) bool {
	now := p.Clock.Now()
	if r.GetDeadline() != nil && !r.GetDeadline().AsTime().After(now) {
		return true
	}
	if r.GetStateTimeoutAt() != nil && !r.GetStateTimeoutAt().AsTime().After(now) {
		return true
	}
	for _, s := range r.GetSteps() {
		if s.GetStatus() == pawlv1.StepStatus_STEP_STATUS_PENDING && s.GetDeadline() != nil && !s.GetDeadline().AsTime().After(now) {
			return true
		}
	}
	return false
}

// next waits for a record after seq, or for the end of the stream.
func (p *execution) next(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.Runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: p.run, AfterSeq: seq, Follow: true, Kinds: everyKind(),
	})
	if err != nil {
		return err
	}
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) || item.GetRecord() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func everyKind() []pawlv1.RecordKind {
	var kinds []pawlv1.RecordKind
	for n := range pawlv1.RecordKind_name {
		if n != 0 {
			kinds = append(kinds, pawlv1.RecordKind(n))
		}
	}
	return kinds
}
