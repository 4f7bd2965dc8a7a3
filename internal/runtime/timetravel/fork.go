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

// ForkRequest is the argument of [Service.ForkRun]. runtime.RunRef is the source: the run that is
// copied.
type ForkRequest struct {
	runtime.RunRef
	// AtSeq is the record of the source at which the fork begins. The state after the commit that
	// contains this record is copied. 0 means the newest state.
	AtSeq uint64
	// Pack refers to the pack of the new run: "id", "id@version" or "sha256:<hex>". "" means the pack
	// of the source.
	Pack string
	// Variables is one JSON object. Its values replace those of the source's variables. An empty value
	// means {}.
	Variables []byte
	// Artifacts are values that replace the copied values of these artifacts, also of artifacts with
	// the mode Append.
	Artifacts []machine.ArtifactWrite
	// Labels replace the source's labels with the same keys.
	Labels []machine.Label
	// Execution says how the new run is executed. If it is unset, the new run has the execution of the
	// source.
	Execution machine.Execution
	// MaxSteps and MaxWallTime lower the bounds of the pack. 0 means that the bound of the pack
	// applies.
	MaxSteps    int
	MaxWallTime time.Duration
	// ReuseSteps reports whether the answered steps of the copied visit keep their recorded answers.
	// nil means that they do, unless the request changes the pack or artifacts.
	ReuseSteps *bool
	// RequestID is the idempotency id. It is unique for one principal in one namespace. It is "" if
	// there is none.
	RequestID string
	// Traceparent is the caller's W3C trace context, as in [runtime.StartRequest]. A fork is not part
	// of the trace of its source.
	Traceparent string
}

// ForkRun creates a run as a copy of another run at one of its records (docs/reference/semantics.md
// §12). It returns the new run with its Origin and its open turn. The copy is independent of its
// source. Pending steps are not copied. ForkRun is idempotent by RequestID, like StartRun.
//
// Errors: NOT_FOUND RECORD_NOT_FOUND or PACK_NOT_FOUND; FAILED_PRECONDITION FORK_TERMINAL,
// FORK_COMPENSATING, FORK_STATE_MISSING or FORK_ARTIFACT_MISMATCH; for variables and labels the errors of StartRun; for
// artifacts the errors of SetArtifacts; PERMISSION_DENIED without the scope runs:write, or without
// events:external if the fork could bypass an approval.
//
// A fork could bypass an approval in three cases:
//   - The source is an imported run.
//   - The source has left a state with external orchestration.
//   - The fork begins in the middle of a pack that has an external state besides the current one, and
//     the pack is not the source's pack, or the source started in the middle.
func (r *Service) ForkRun(ctx context.Context, req ForkRequest) (runtime.Answer, error) {
	source, err := r.cfg.Engine.FindReadable(req.RunRef)
	if err != nil {
		return runtime.Answer{}, err
	}
	if err := policy.Require(req.Principal, policy.RunsWrite); err != nil {
		return runtime.Answer{}, runtime.PolicyError(err)
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

// prepareFork reads everything that the fork copies from its source, and makes the command.
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

// checkApproval prevents that a caller without the right to approve bypasses an approval with a fork. A
// fork executes again what was approved in the source, perhaps with other values. With another pack, or
// if an admin started the source in the middle, the fork may begin behind a state with external
// orchestration that the source never visited. The history of an imported run is not trusted, because
// its file may have been written by hand.
func (r *Service) checkApproval(ctx context.Context, ns uint32, p runtime.Principal, g *machine.Graph, from *machine.State) error {
	behind := from.Imported || leftExternal(g, from) || from.EntryOverride && hasExternal(g, from.Current)
	if from.Digest != g.Digest {
		prog, err := r.cfg.Programs.ProgramOf(ctx, ns, from)
		if err != nil {
			return err
		}
		behind = behind || leftExternal(prog.Graph, from) || from.Current != g.Entry && hasExternal(g, from.Current)
	}
	if !behind {
		return nil
	}
	return runtime.PolicyError(policy.Require(p, policy.EventsExternal))
}

// leftExternal reports whether the run has visited and left a state with external orchestration, in
// which a principal with the scope events:external decides.
func leftExternal(g *machine.Graph, s *machine.State) bool {
	for _, visited := range s.Visits {
		node := g.States[visited.State]
		if node != nil && node.Orchestration == machine.External && (visited.State != s.Current || visited.N > 1) {
			return true
		}
	}
	return false
}

// hasExternal reports whether the graph has another state than the current one with external
// orchestration.
func hasExternal(g *machine.Graph, current string) bool {
	for name, node := range g.States {
		if node.Orchestration == machine.External && name != current {
			return true
		}
	}
	return false
}

// forkProgram returns the compiled pack of the new run: the pack of the source or, if the request names
// another pack, that pack for the same entry.
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

// labelsOf returns the labels that the copy gets from its source. If the source is the run of an agent
// of this store, the labels of another run (Payer) select its accounts. A copy has no payer, so it gets
// these labels itself.
func labelsOf(from *machine.State) []machine.Label {
	own := validate.CopiedLabels(from.Labels)
	if from.Payer == nil {
		return own
	}
	return setOver(validate.CopiedLabels(from.Payer.Labels), own)
}

// setOver returns the labels of the source, with the labels of the request in place of those with the
// same keys.
func setOver(from, over []machine.Label) []machine.Label {
	labels := slices.DeleteFunc(slices.Clone(from), func(l machine.Label) bool {
		return slices.ContainsFunc(over, func(o machine.Label) bool { return o.Key == l.Key })
	})
	return append(labels, over...)
}

// forkVariables returns the variables of the source, with the values that the request sets. If the fork
// has another pack, it keeps only the variables that the pack declares.
func (r *Service) forkVariables(ctx context.Context, source runtime.RunKey, prog *packcache.Program, entry pack.Entry, digest string, given []byte) ([]byte, error) {
	raw, err := r.cfg.Past.Variables(ctx, source)
	if err != nil {
		return nil, err
	}
	values, err := strictjson.Object(raw)
	if err != nil {
		return nil, fmt.Errorf("timetravel: variables of run %s: %w", source.ID, err)
	}
	if digest != prog.Graph.Digest {
		known, err := prog.Pack.Variables(entry)
		if err != nil {
			return nil, packcache.EntryRefused(err)
		}
		for name := range values {
			if !slices.ContainsFunc(known, func(d pack.DeclaredVariable) bool { return d.Name == name }) {
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
		return nil, fmt.Errorf("timetravel: variables of run %s: %w", source.ID, err)
	}
	return validate.Variables(prog, entry, merged)
}

// copyBodies reads the artifacts, messages, queued inputs and answers of the source, as they were in
// the copied state.
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
	fork.Steps, err = r.copyAnswers(ctx, source, from, views)
	return err
}

// copySteering reads the steering messages (sent by a person to an active run) that the source has not
// used yet. Notices are not copied.
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

// conversations reads the conversations that a later turn of the copy can see: those of the current
// state and of persistent states.
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

// forkHash returns the hash of a fork request as it was sent, before references are resolved. So a
// repeat is recognized even if the pack's default version has changed in the meantime.
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
