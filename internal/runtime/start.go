package runtime

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StartRun begins a run (§1, §3) and returns it with its first record and its
// first turn. Idempotent by RequestID, per principal and namespace: the same
// request again is answered with the first run, another one is ALREADY_EXISTS.
//
// Errors: PERMISSION_DENIED without the scope runs:write, or without admin for
// State; NOT_FOUND for the pack; INVALID_ARGUMENT for execution, entry, labels
// and variables, by field; RESOURCE_EXHAUSTED for what is too large.
func (e *Engine) StartRun(ctx context.Context, req StartRequest) (Answer, error) {
	ns, err := e.namespace(req.Namespace)
	if err != nil {
		return Answer{}, err
	}
	if err := policy.Require(req.Principal, policy.RunsWrite); err != nil {
		return Answer{}, Denied(err)
	}
	if err := e.checkStart(&req); err != nil {
		return Answer{}, err
	}
	c := &change{principal: req.Principal, id: req.RequestID, hash: startHash(&req), command: machine.Start{}}
	c.key = RunKey{Namespace: ns, ID: e.cfg.IDs.RunID(e.cfg.Clock.Now())}
	start, err := e.prepareStart(ctx, ns, c.key.ID, &req, c)
	if err != nil {
		return e.refuseStart(ctx, c, err)
	}
	c.command = start
	return e.apply(ctx, c)
}

// refuseStart answers a start or fork that cannot be made, unless it was made
// before.
func (e *Engine) refuseStart(ctx context.Context, c *change, reason error) (Answer, error) {
	t := &transit{e: e, c: c}
	t.c.start = &Program{Graph: &machine.Graph{}}
	t.input = machine.Input{ID: c.id, BodyHash: c.hash}
	return t.refuse(ctx, reason)
}

// checkStart is what can be said of a start without its pack.
func (e *Engine) checkStart(req *StartRequest) error {
	if err := checkID("request_id", req.RequestID); err != nil {
		return err
	}
	if req.Execution != machine.Caller && req.Execution != machine.Workers {
		return &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "EXECUTION_REQUIRED", Field: "execution",
			Message: "say who executes the turns", Allowed: []string{"CALLER", "WORKERS"},
		}
	}
	if req.Pack == "" {
		return malformed("PACK_REQUIRED", "pack", "must be id, id@version or sha256:<hex>")
	}
	if err := e.checkLabels(req.Labels); err != nil {
		return err
	}
	if err := tooLarge("variables", "VARIABLES_TOO_LARGE", len(req.Variables), e.cfg.MaxVariableBytes); err != nil {
		return err
	}
	if len(req.Variables) > 0 && !isObject(req.Variables) {
		return malformed("INVALID_JSON", "variables", "must be one JSON object")
	}
	return checkParts("input", req.Input)
}

func tooLarge(field, reason string, got, limit int) error {
	if got <= limit {
		return nil
	}
	return &machine.Refusal{
		Code: machine.CodeResourceExhausted, Reason: reason, Field: field,
		Message: fmt.Sprintf("%d given, at most %d are taken", got, limit), Limit: int64(limit), Got: int64(got),
	}
}

// prepareStart resolves pack, entry and variables and makes the command.
func (e *Engine) prepareStart(ctx context.Context, ns uint32, id string, req *StartRequest, c *change) (machine.Start, error) {
	if err := e.inflight.admit(ctx, e.cfg.Namespaces); err != nil {
		return machine.Start{}, err
	}
	entry := pack.Entry{Agent: req.Agent, State: req.State}
	prog, err := e.programs.Start(ctx, ns, req.Pack, entry)
	if err != nil {
		return machine.Start{}, err
	}
	override := prog.Pack.Overrides(entry)
	if override {
		if err := policy.Require(req.Principal, policy.Admin); err != nil {
			return machine.Start{}, Denied(err)
		}
	}
	variables, err := startVariables(prog, entry, req.Variables)
	if err != nil {
		return machine.Start{}, err
	}
	c.start = prog
	return machine.Start{
		Namespace: ns, RunID: id, EntryOverride: override, Execution: req.Execution,
		Variables: variables, Input: req.Input, Labels: e.traced(id, req.Labels, req.Traceparent), Limits: e.cfg.Limits,
		Parent: req.Parent, Depth: req.Depth, Task: req.Task, Envelope: req.Envelope, MaxWallTime: e.wallTime(prog.Graph, req.MaxWallTime), MaxSteps: req.MaxSteps,
	}, nil
}

// wallTime is what a run may take where its starter asks for a time (0 = nothing asked):
// the operator's default where the pack says nothing either, and never more than the
// operator's ceiling.
func (e *Engine) wallTime(g *machine.Graph, asked time.Duration) time.Duration {
	if g.Budget.MaxWallTime == 0 {
		asked = orDefault(asked, e.cfg.DefaultWallTime)
	}
	if ceiling := e.cfg.MaxWallTime; ceiling > 0 && (asked == 0 || asked > ceiling) {
		return ceiling
	}
	return asked
}

// startVariables checks the variables and fills in the defaults. All faults are
// told; the first names the field.
func startVariables(prog *Program, entry pack.Entry, given []byte) ([]byte, error) {
	values, faults, err := prog.Pack.CheckVariables(entry, given)
	if err != nil {
		return nil, EntryRefused(err)
	}
	if len(faults) == 0 {
		return values, nil
	}
	return nil, &machine.Refusal{
		Code: machine.CodeInvalidArgument, Reason: "BAD_VARIABLES", Field: faults[0].Field, Message: joinFaults(faults),
	}
}

func joinFaults(faults []pack.FieldError) string {
	words := make([]string, len(faults))
	for i, f := range faults {
		words[i] = f.Error()
	}
	return strings.Join(words, "; ")
}

// startHash covers the request as it was made, references unresolved: a repeat
// is a repeat even if the pack's default has moved meanwhile.
func startHash(req *StartRequest) [32]byte {
	b := newBody(machine.CmdStart)
	defer b.free()
	b.text(req.Pack)
	b.text(req.Agent)
	b.text(req.State)
	b.json(bytes.TrimSpace(req.Variables))
	b.parts(req.Input)
	b.number(uint64(req.Execution))
	labels := slices.Clone(req.Labels)
	slices.SortFunc(labels, func(a, c machine.Label) int { return strings.Compare(a.Key, c.Key) })
	b.number(uint64(len(labels)))
	for _, l := range labels {
		b.text(l.Key)
		b.text(l.Value)
	}
	b.number(uint64(req.MaxSteps))
	b.number(uint64(req.MaxWallTime))
	if req.Parent != nil {
		b.text(req.Parent.RunID)
		b.number(uint64(req.Parent.Step))
		b.number(uint64(req.Parent.Attempt))
		b.text(req.Parent.Origin)
	}
	b.number(uint64(req.Depth))
	b.envelope(req.Envelope)
	if req.Task != nil {
		b.text(req.Task.ContextID)
		b.text(req.Task.Owner)
		b.text(req.Task.Tenant)
	}
	return b.sum()
}
