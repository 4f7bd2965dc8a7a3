package timetravel

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// ForkRequest is the argument of [Service.ForkRun]; runtime.RunRef names the source.
type ForkRequest struct {
	runtime.RunRef
	// AtSeq is the record to begin from: the state after the commit that holds it;
	// 0 = as the run is now.
	AtSeq uint64
	// Pack is "id", "id@version" or "sha256:<hex>"; "" = the source's.
	Pack string
	// Variables is one JSON object, set over the source's; empty = {}.
	Variables []byte
	// Artifacts replace what these artifacts hold, whatever their mode.
	Artifacts []machine.ArtifactWrite
	// Labels are set over the source's.
	Labels []machine.Label
	// Execution of the new run; unset = the source's.
	Execution machine.Execution
	// MaxSteps and MaxWallTime lower the pack's; 0 = the pack's.
	MaxSteps    int
	MaxWallTime time.Duration
	// ReuseSteps: the answered steps of the visit are answered from the record; nil
	// = unless pack or artifacts are changed.
	ReuseSteps *bool
	// RequestID is the idempotency id, unique per principal and namespace; "" = none.
	RequestID string
	// Traceparent is that of [StartRequest]: a fork is no part of its source's trace.
	Traceparent string
}

// ForkRun begins a run as a copy of another at one of its records (§12) and
// returns it with its Origin and its open turn. The copy stands alone; pending
// steps are not copied. Idempotent by RequestID like StartRun.
//
// Errors: PERMISSION_DENIED without the scope runs:write, or without events:external
// for an imported run, for one that has left a state of orchestration external, and
// into the middle of a pack that has such a state, where that is another pack or the
// source began there; NOT_FOUND
// RECORD_NOT_FOUND or PACK_NOT_FOUND; FAILED_PRECONDITION FORK_TERMINAL,
// FORK_STATE_MISSING or FORK_ARTIFACT_MISMATCH; those of StartRun for variables
// and labels, and of SetArtifacts for artifacts.
func (r *Service) ForkRun(ctx context.Context, req ForkRequest) (runtime.Answer, error) {
	source, err := r.cfg.Engine.FindReadable(req.RunRef)
	if err != nil {
		return runtime.Answer{}, err
	}
	if err := policy.Require(req.Principal, policy.RunsWrite); err != nil {
		return runtime.Answer{}, runtime.Denied(err)
	}
	if err := r.checkFork(&req); err != nil {
		return runtime.Answer{}, err
	}
	return r.cfg.Engine.CreateRun(ctx, runtime.CreateRequest{
		Namespace: source.Namespace, Principal: req.Principal, ID: req.RequestID, Hash: forkHash(&req), Command: machine.Fork{},
		Prepare: func(ctx context.Context, run string) (machine.Command, *packcache.Program, error) {
			return r.prepareFork(ctx, source, &req, run)
		},
	})
}

func (r *Service) checkFork(req *ForkRequest) error {
	if err := validate.CheckID("request_id", req.RequestID); err != nil {
		return err
	}
	return r.cfg.Terms.CheckVariables(req.Variables)
}

// prepareFork reads everything that is copied.
func (r *Service) prepareFork(ctx context.Context, source runtime.RunKey, req *ForkRequest, run string) (machine.Command, *packcache.Program, error) {
	from, err := r.cfg.Engine.StateOf(ctx, source, req.AtSeq)
	if err == nil {
		err = from.CheckNotErased()
	}
	if err != nil {
		return nil, nil, err
	}
	prog, entry, err := r.forkProgram(ctx, source.Namespace, req.Pack, from)
	if err != nil {
		return nil, nil, err
	}
	if err := r.checkApproval(ctx, source.Namespace, req.Principal, prog.Graph, from); err != nil {
		return nil, nil, err
	}
	if err := validate.CheckValues(prog.Graph, req.Artifacts); err != nil {
		return nil, nil, err
	}
	own := *from
	own.Imported = false
	from = &own
	fork := machine.Fork{
		Namespace: source.Namespace, RunID: run, EntryOverride: from.EntryOverride, Execution: req.Execution,
		Labels: setOver(labelsOf(from), req.Labels), Limits: r.cfg.Terms.Limits, MaxWallTime: r.cfg.Terms.WallTime(prog.Graph, req.MaxWallTime), MaxSteps: req.MaxSteps,
		Seq: req.AtSeq, From: from, Changes: validate.CompactWrites(prog.Graph, req.Artifacts),
	}
	if fork.Execution == machine.ExecutionUnset {
		fork.Execution = from.Execution
	}
	if fork.Seq == 0 {
		fork.Seq = from.Seq
	}
	if err := r.cfg.Terms.CheckExecution(fork.Execution); err != nil {
		return nil, nil, err
	}
	if err := r.cfg.Terms.CheckLabels(fork.Labels); err != nil {
		return nil, nil, err
	}
	fork.Labels = r.cfg.Terms.Traced(fork.RunID, fork.Labels, req.Traceparent)
	fork.ReuseSteps = from.Digest == prog.Graph.Digest && len(req.Artifacts) == 0
	if req.ReuseSteps != nil {
		fork.ReuseSteps = *req.ReuseSteps
	}
	if fork.Variables, err = r.forkVariables(ctx, source, prog, entry, from.Digest, req.Variables); err != nil {
		return nil, nil, err
	}
	return fork, prog, r.copyBodies(ctx, source, prog.Graph, &fork)
}

// checkApproval: nobody is to get behind an approval who could not approve. A copy
// does once more, perhaps with other values, what the source was approved for; under
// another pack, or where an admin let the source enter in the middle, it may begin behind
// a state that it never was in; and the history of an imported run is whoever made the
// file's.
func (r *Service) checkApproval(ctx context.Context, ns uint32, p runtime.Principal, g *machine.Graph, from *machine.State) error {
	behind := from.Imported || leftExternal(g, from) || from.EntryOverride && hasExternal(g, from.Current)
	if from.Digest != g.Digest {
		prog, err := r.cfg.Programs.Of(ctx, ns, from)
		if err != nil {
			return err
		}
		behind = behind || leftExternal(prog.Graph, from) || from.Current != g.Entry && hasExternal(g, from.Current)
	}
	if !behind {
		return nil
	}
	return runtime.Denied(policy.Require(p, policy.EventsExternal))
}

// leftExternal: the run has been in a state that is moved from outside, and gone on.
func leftExternal(g *machine.Graph, s *machine.State) bool {
	for _, visited := range s.Visits {
		node := g.States[visited.State]
		if node != nil && node.Orchestration == machine.External && (visited.State != s.Current || visited.N > 1) {
			return true
		}
	}
	return false
}

// hasExternal: a state besides the current one is moved from outside.
func hasExternal(g *machine.Graph, current string) bool {
	for name, node := range g.States {
		if node.Orchestration == machine.External && name != current {
			return true
		}
	}
	return false
}

// forkProgram is the program of the new run: the source's, or its entry in
// another pack.
func (r *Service) forkProgram(ctx context.Context, ns uint32, ref string, from *machine.State) (*packcache.Program, pack.Entry, error) {
	entry := pack.Entry{Agent: from.Agent}
	if from.EntryOverride {
		entry.State = from.Entry
	}
	if ref == "" {
		ref = from.Digest
	}
	prog, err := r.cfg.Programs.Start(ctx, ns, ref, entry)
	return prog, entry, err
}

// labelsOf are those that a copy of a run has. One that an agent of this store made has no labels
// but is counted by those of another run: a copy stands alone and is counted by the same.
func labelsOf(from *machine.State) []machine.Label {
	own := validate.Copied(from.Labels)
	if from.Payer == nil {
		return own
	}
	return setOver(validate.Copied(from.Payer.Labels), own)
}

// setOver puts the labels of a request over those of the source.
func setOver(from, over []machine.Label) []machine.Label {
	labels := slices.DeleteFunc(slices.Clone(from), func(l machine.Label) bool {
		return slices.ContainsFunc(over, func(o machine.Label) bool { return o.Key == l.Key })
	})
	return append(labels, over...)
}

// forkVariables puts the request's variables over the source's. Into another
// pack only those go that it knows.
func (r *Service) forkVariables(ctx context.Context, source runtime.RunKey, prog *packcache.Program, entry pack.Entry, digest string, given []byte) ([]byte, error) {
	raw, err := r.cfg.Past.Variables(ctx, source)
	if err != nil {
		return nil, err
	}
	values, err := strictjson.Object(raw)
	if err != nil {
		return nil, fmt.Errorf("travel: variables of run %s: %w", source.ID, err)
	}
	if digest != prog.Graph.Digest {
		known, err := prog.Pack.Variables(entry)
		if err != nil {
			return nil, packcache.EntryRefused(err)
		}
		for name := range values {
			if !slices.ContainsFunc(known, func(d pack.Declared) bool { return d.Name == name }) {
				delete(values, name)
			}
		}
	}
	over := map[string]json.RawMessage{}
	if len(given) > 0 {
		if over, err = strictjson.Object(given); err != nil {
			return nil, validate.Malformed("INVALID_JSON", "variables", "must be one JSON object: "+err.Error())
		}
	}
	maps.Copy(values, over)
	merged, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("travel: variables of run %s: %w", source.ID, err)
	}
	return validate.Variables(prog, entry, merged)
}

// copyBodies reads values, messages, inputs and answers as of the source's state.
func (r *Service) copyBodies(ctx context.Context, source runtime.RunKey, g *machine.Graph, fork *machine.Fork) error {
	from := fork.From
	values, err := r.cfg.Past.Artifacts(ctx, source, from, from.Seq)
	if err != nil {
		return err
	}
	for _, v := range values {
		fork.Values = append(fork.Values, machine.ArtifactWrite{Name: v.Name, Value: v.Value})
	}
	if fork.Conversations, err = r.conversations(ctx, source, g, from); err != nil {
		return err
	}
	for _, seq := range from.Queue {
		body, err := r.cfg.Past.Body(ctx, source, seq)
		if err != nil {
			return err
		}
		if in, ok := body.(*machine.InputReceived); ok {
			fork.Queued = append(fork.Queued, machine.QueuedInput{Parts: in.Parts, MessageID: in.MessageID})
		}
	}
	if err := r.copySteering(ctx, source, fork); err != nil {
		return err
	}
	if !fork.ReuseSteps {
		return nil
	}
	views, err := r.cfg.Past.Steps(ctx, source, rules.Resolved(from))
	if err != nil {
		return err
	}
	fork.Steps, err = r.taken(ctx, source, from, views)
	return err
}

// copySteering reads what was said to the source and not heard. Notices are the source's.
func (r *Service) copySteering(ctx context.Context, source runtime.RunKey, fork *machine.Fork) error {
	for _, h := range fork.From.RequiredMessages {
		if h.Notice || h.Row != 0 {
			continue
		}
		body, err := r.cfg.Past.Body(ctx, source, h.Seq)
		if err != nil {
			return err
		}
		text, _ := history.RequiredText(body)
		fork.Queued = append(fork.Queued, machine.QueuedInput{Steer: text})
	}
	return nil
}

// conversations reads the conversations that a turn can still see: that of the visit
// under way and those of persistent states.
func (r *Service) conversations(ctx context.Context, key runtime.RunKey, g *machine.Graph, s *machine.State) ([]machine.ConversationCopy, error) {
	var talks []machine.ConversationCopy
	for _, window := range s.Conversations {
		node := g.States[window.State]
		if node == nil || window.State != s.Current && !node.Persistent {
			continue
		}
		messages, err := r.cfg.Past.Conversation(ctx, key, window)
		if err != nil {
			return nil, err
		}
		if len(messages) > 0 {
			talks = append(talks, machine.ConversationCopy{State: window.State, Messages: messages})
		}
	}
	return talks, nil
}

// forkHash covers the request as it was made, like startHash.
func forkHash(req *ForkRequest) [32]byte {
	b := validate.NewBody(machine.CmdFork)
	defer b.Free()
	b.Text(req.RunID)
	b.Number(req.AtSeq)
	b.Text(req.Pack)
	b.JSON(req.Variables)
	writes := slices.Clone(req.Artifacts)
	slices.SortStableFunc(writes, func(a, c machine.ArtifactWrite) int { return strings.Compare(a.Name, c.Name) })
	b.Number(uint64(len(writes)))
	for _, w := range writes {
		b.Text(w.Name)
		if w.Form == machine.FormJSON {
			w.Value = validate.Canonical(w.Value)
		}
		b.Bytes(w.Value)
	}
	b.Number(uint64(req.Execution))
	labels := slices.Clone(req.Labels)
	slices.SortFunc(labels, func(a, c machine.Label) int { return strings.Compare(a.Key, c.Key) })
	b.Number(uint64(len(labels)))
	for _, l := range labels {
		b.Text(l.Key)
		b.Text(l.Value)
	}
	b.Number(uint64(req.MaxSteps))
	b.Number(uint64(req.MaxWallTime))
	if req.ReuseSteps != nil {
		b.Number(1)
		b.Flag(*req.ReuseSteps)
	}
	return b.Sum()
}
