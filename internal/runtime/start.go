package runtime

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// StartRun begins a run (semantics §1, §3) and returns it with its first record and its first turn. It
// is idempotent by RequestID, for one principal in one namespace. A repeat of the request gets the
// first run as its answer. A different request with the same id gets the error ALREADY_EXISTS.
//
// Errors: PERMISSION_DENIED without the scope runs:write, or without admin if State is set; NOT_FOUND
// for the pack; INVALID_ARGUMENT for execution, entry, labels and variables, with the name of the
// field; RESOURCE_EXHAUSTED if a value is too large.
func (e *Engine) StartRun(ctx context.Context, req StartRequest) (Answer, error) {
	ns, err := e.namespaceOf(req.Call)
	if err != nil {
		return Answer{}, err
	}
	if err := policy.Require(req.Principal, policy.RunsWrite); err != nil {
		return Answer{}, PolicyError(err)
	}
	if err := e.checkStart(&req); err != nil {
		return Answer{}, err
	}
	req.Labels = slices.Concat(req.Labels, req.Given)
	return e.CreateRun(ctx, CreateRequest{
		Namespace: ns, Principal: req.Principal, ID: req.RequestID, Hash: startHash(&req), Command: machine.Start{},
		Prepare: func(ctx context.Context, run string) (machine.Command, *packcache.Program, error) {
			return e.prepareStart(ctx, ns, run, &req)
		},
	})
}

// CreateRequest is an input that creates a run: a start or a fork. The caller of [Engine.CreateRun]
// must have checked the rights of the principal.
type CreateRequest struct {
	Namespace uint32
	Principal Principal
	// ID is the idempotency id. It is unique for one principal in one namespace. It is "" if there is
	// none. Hash is the hash of the request. A repeat must have the same hash.
	ID   string
	Hash [32]byte
	// Command is an empty command of the same type as the command that Prepare makes.
	Command machine.Command
	// Prepare makes the first command of the run with this id, and loads its compiled pack. It is
	// called at most once. If it fails, its error is returned, unless the ID was used before.
	Prepare func(ctx context.Context, run string) (machine.Command, *packcache.Program, error)
}

// CreateRun creates a run. It chooses the run's id, checks quotas, prepares the first input and
// applies it like every other input. The caller must have checked the rights of the principal. It is
// idempotent by ID.
func (e *Engine) CreateRun(ctx context.Context, b CreateRequest) (Answer, error) {
	c := &operation{principal: b.Principal, id: b.ID, hash: b.Hash, command: b.Command}
	c.key = RunKey{Namespace: b.Namespace, ID: e.cfg.IDs.RunID(e.cfg.Clock.Now())}
	settle, err := e.runs.Begin(ctx, b.Namespace, b.Principal.Speaker(), time.Unix(0, int64(e.cfg.Clock.Elapsed())))
	var command machine.Command
	if err == nil {
		defer func() { settle(c.createdRun) }()
		command, c.start, err = b.Prepare(ctx, c.key.ID)
	}
	if err == nil {
		err = e.terms.Admit(c.start.Graph, command, e.cfg.Prices.Admit)
	}
	if err != nil {
		answer, err := e.refuseStart(ctx, c, err)
		return e.addArtifacts(ctx, b.Namespace, &b.Principal, answer, err)
	}
	c.command = command
	answer, err := e.apply(ctx, c)
	return e.addArtifacts(ctx, b.Namespace, &b.Principal, answer, err)
}

// refuseStart returns the error `reason` for a start or fork that is refused. If the request is a
// repeat, it returns the answer to the first request instead.
func (e *Engine) refuseStart(ctx context.Context, c *operation, reason error) (Answer, error) {
	t := &execution{e: e, op: c}
	t.op.start = &packcache.Program{Graph: &machine.Graph{}}
	t.input = machine.Input{ID: c.id, BodyHash: c.hash}
	return t.refuse(ctx, reason)
}

// checkStart makes the checks of a start request that do not need its pack.
func (e *Engine) checkStart(req *StartRequest) error {
	if err := validate.CheckID("request_id", req.RequestID); err != nil {
		return err
	}
	if err := e.terms.CheckExecution(req.Execution); err != nil {
		return err
	}
	if req.Pack == "" {
		return validate.Malformed("PACK_REQUIRED", "pack", "must be id, id@version or sha256:<hex>")
	}
	if err := e.terms.CheckLabels(req.Labels); err != nil {
		return err
	}
	if err := e.terms.CheckVariables(req.Variables); err != nil {
		return err
	}
	return validate.CheckParts("input", req.Input)
}

// prepareStart loads the pack, checks the entry and the variables of a start, and makes the command.
func (e *Engine) prepareStart(ctx context.Context, ns uint32, id string, req *StartRequest) (machine.Command, *packcache.Program, error) {
	entry := pack.Entry{Agent: req.Agent, State: req.State}
	prog, err := e.programs.Start(ctx, ns, req.Pack, entry)
	if err != nil {
		return nil, nil, err
	}
	override := prog.Pack.Overrides(entry)
	if override {
		if err := policy.Require(req.Principal, policy.Admin); err != nil {
			return nil, nil, PolicyError(err)
		}
	}
	variables, err := validate.Variables(prog, entry, req.Variables)
	if err != nil {
		return nil, nil, err
	}
	return machine.Start{
		Namespace: ns, RunID: id, EntryOverride: override, Execution: req.Execution, Conversation: req.Conversation,
		Variables: variables, Input: req.Input, Labels: e.terms.Traced(id, req.Labels, req.Traceparent), Limits: e.terms.Limits,
		Parent: req.Parent, Depth: req.Depth, Task: req.Task, Envelope: req.Envelope, MaxWallTime: e.terms.WallTime(prog.Graph, req.MaxWallTime), MaxSteps: req.MaxSteps, Lease: req.Lease, Policy: req.Policy, Payer: req.Payer,
	}, prog, nil
}

// startHash returns the hash of a start request as it was sent, before references are resolved. So a
// repeat is recognized even if the pack's default version has changed in the meantime.
func startHash(req *StartRequest) [32]byte {
	b := validate.NewBody(machine.CmdStart)
	defer b.Free()
	b.Text(req.Pack)
	b.Text(req.Agent)
	b.Text(req.State)
	b.JSON(bytes.TrimSpace(req.Variables))
	b.Parts(req.Input)
	b.Number(uint64(req.Execution))
	hashLabels(&b, req.Labels)
	b.Number(uint64(req.MaxSteps))
	b.Number(uint64(req.MaxWallTime))
	if req.Parent != nil {
		b.Text(req.Parent.RunID)
		b.Number(uint64(req.Parent.Step))
		b.Number(uint64(req.Parent.Attempt))
		b.Text(req.Parent.Origin)
	}
	b.Number(uint64(req.Depth))
	b.Envelope(req.Envelope)
	if req.Task != nil {
		b.Text(req.Task.ContextID)
		b.Text(req.Task.Owner)
		b.Text(req.Task.Tenant)
	}
	b.AddLease(req.Lease, req.Policy)
	if req.Payer != nil {
		hashLabels(&b, req.Payer.Labels)
	}
	// Only a conversation changes the hash, so that the hashes of requests from before this field
	// existed stay valid.
	if req.Conversation {
		b.Text("conversation")
	}
	return b.Sum()
}

func hashLabels(b *validate.Body, given []machine.Label) {
	labels := slices.Clone(given)
	slices.SortFunc(labels, func(a, c machine.Label) int { return strings.Compare(a.Key, c.Key) })
	b.Number(uint64(len(labels)))
	for _, l := range labels {
		b.Text(l.Key)
		b.Text(l.Value)
	}
}
