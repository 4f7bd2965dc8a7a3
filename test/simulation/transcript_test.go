//go:build sim

package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// content returns everything that a model is shown as one text.
func content(system, tools, parameters string, messages []*pawlv1.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q\n%q\n%q\n", system, tools, parameters)
	for _, m := range messages {
		raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // the messages contain only texts
		fmt.Fprintf(&b, "%q\n", raw)
	}
	return b.String()
}

// transcript compares what GetModelStep returns for a step with the request of its round and its
// answer, byte for byte, and returns the content.
func (w *world) transcript(ctx context.Context, n *node, id stepID) (shown string, err error) {
	got, err := n.runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{RunId: id.run, Step: id.step})
	if err != nil {
		w.judged("GetModelStep", err)
		return "", err
	}
	shown = content(got.GetSystem(), got.GetToolsJson(), got.GetParametersJson(), got.GetMessages())
	w.ledger.mu.Lock()
	round := w.ledger.rounds[id]
	asked, answer := w.ledger.asked[round], w.ledger.answers[round]
	w.ledger.mu.Unlock()
	if !slices.ContainsFunc(asked, func(a string) bool { return plain(a) == plain(shown) }) {
		w.fail("the transcript is what was said", "%v: GetModelStep shows\n%s\nand the model was asked\n%s", id, shown, strings.Join(asked, "\nor\n"))
	}
	if answer != nil && !proto.Equal(answer, got.GetStep().GetModel().GetAnswer()) {
		w.fail("the transcript is what was said", "%v: GetModelStep shows the answer %v, the model said %v", id, got.GetStep().GetModel().GetAnswer(), answer)
	}
	return shown, nil
}

// lastShown returns what the model of a step was shown in its last attempt. It ignores attempts before from.
// "" means that the ledger has no such attempt.
func (l *ledger) lastShown(id stepID, from int32) (text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, attempt := range slices.Sorted(maps.Keys(l.shown[id])) {
		if attempt >= from {
			text = l.shown[id][attempt]
		}
	}
	return text
}

// judged reports errors that no call over the network may have.
func (w *world) judged(name string, err error) {
	switch status.Code(err) {
	case codes.Internal, codes.DataLoss:
		w.fail("no internal errors", "%s: %v", name, err)
	}
}

// steps returns the steps of a node whose models were shown something.
func (l *ledger) steps(n *node) []stepID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []stepID
	for id := range l.shown {
		if id.node == n.name {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b stepID) int {
		if a.run != b.run {
			return strings.Compare(a.run, b.run)
		}
		return int(a.step) - int(b.step)
	})
	return all
}

// settled compares, at the end, the records of model calls with what executors know: transcripts,
// usage, and that one call has at most one effect.
func (w *world) settled() {
	for i, n := range w.stores {
		o := w.oracles[i]
		for _, id := range w.ledger.steps(n) {
			if o.deleting[id.run] {
				continue
			}
			shown, err := w.transcript(context.Background(), n, id)
			if err != nil {
				w.fail("the transcript is what was said", "%v: %v", id, err)
			}
			// All attempts since the last changed request make the same request. This excludes the attempts
			// for which the record says that something else was requested too.
			said := &o.spent[id.run].talk
			from := max(said.anew[id.step], said.other[id.step]+1)
			want := w.ledger.lastShown(id, from)
			if said.repeated(id.step) {
				// The record of an earlier round may contain messages of people. The execution that requested
				// this round took the answer of that round from the record, and did not receive these
				// messages. So the comparison ignores them.
				want, shown = plain(want), plain(shown)
			}
			if want != "" && want != shown {
				w.fail("the transcript is what was said", "%v: GetModelStep shows\n%s\nand the model was shown last\n%s", id, shown, want)
			}
		}
		w.usage(n, o)
	}
	w.heard()
	w.effected()
	w.delivered()
	w.onTime()
	w.tools.settled()
}

// spending is what one record of a MODEL step counts.
type spending struct {
	stepID
	attempt    int32
	in, out    int64
	estimated  bool
	responseID string
	// late means that no step waited for the call any more.
	late bool
}

// spendings returns what the records of a node count for model calls, over all runs.
func (o *oracle) spendings() (all []spending) {
	for i := range o.journal {
		e := &o.journal[i]
		for j := range e.Records {
			s := spending{stepID: stepID{node: o.node.name, run: e.RunID}}
			var u machine.Usage
			switch b := e.Records[j].Body.(type) {
			case *machine.StepResolved:
				if b.Kind != machine.KindModel {
					continue
				}
				s.step, s.attempt, u, s.responseID = b.Step, int32(b.Attempt), b.Usage, b.Error.Message
				if b.Answer != nil {
					s.responseID = b.Answer.ResponseID
				}
			case *machine.ModelUpdated:
				s.step, s.attempt, u, s.responseID, s.late = b.Step, int32(b.Attempt), b.Usage, b.ResponseID, true
			}
			s.estimated = u.Estimated
			if s.in, s.out = u.InputTokens, u.OutputTokens; s.in|s.out != 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

// usage checks that exactly the acknowledged reports of executors are counted, each once.
func (w *world) usage(n *node, o *oracle) {
	left := o.spendings()
	for _, r := range w.ledger.reports {
		in, out, estimated := r.counts()
		if r.node != n.name || in|out == 0 {
			continue
		}
		took := func(in, out int64, estimated bool) int {
			return slices.IndexFunc(left, func(s spending) bool {
				return s.stepID == r.stepID && s.attempt == r.attempt && s.in == in && s.out == out && s.estimated == estimated
			})
		}
		at := took(in, out, estimated)
		if at < 0 && estimated && r.took != pawlv1.Disposition_DISPOSITION_ACCEPTED {
			// The bound was already settled or returned. So figures that the report does not have count as
			// nothing.
			at = took(r.usage.GetInputTokens(), r.usage.GetOutputTokens(), r.usage.GetEstimated())
		}
		switch {
		case at >= 0:
			left = slices.Delete(left, at, at+1)
		case estimated && r.took != pawlv1.Disposition_DISPOSITION_ACCEPTED:
		case r.heard && r.took != pawlv1.Disposition_DISPOSITION_IGNORED_TERMINAL && !o.deleting[r.run]:
			w.fail("usage adds up", "%v attempt %d used %v, was heard (%s), and no record counts %d and %d", r.stepID, r.attempt, r.usage, r.took, in, out)
		}
	}
	for _, s := range left {
		if o.spent[s.run].leased && s.estimated && s.in == mostInput && s.out == mostOutput {
			continue // in a run with a lease, consumption without a report counts as the bound
		}
		if state := o.states[s.run]; state != nil && state.Execution == machine.Sidecar {
			w.asked(s)
			continue
		}
		w.fail("usage adds up", "%+v is counted, and nobody told it, or only once", s)
	}
}

// asked checks that the sidecar's own executor counts what the endpoint consumed.
func (w *world) asked(s spending) {
	id := s.responseID
	if at := strings.LastIndex(id, "response-"); at >= 0 {
		id = id[at:]
	}
	call := w.endpoint.known(id)
	if s.responseID != "" && call != nil && call.silence != saysAll {
		// The input is estimated from bytes, and may be less than it was.
		in := call.silence == saysInput && s.in == call.usage.GetInputTokens() || call.silence != saysInput && s.in > 0
		if told := call.told(); s.late && s.in == told.GetInputTokens() && s.out == told.GetOutputTokens() {
			return // the bound was returned at the end of the run
		}
		if !s.estimated || !in || s.out < call.usage.GetOutputTokens() {
			w.fail("usage adds up", "%+v is counted, the endpoint has %v and did not say all of it", s, call.usage)
		}
		return
	}
	if s.responseID != "" && call != nil && (call.usage.GetInputTokens() != s.in || call.usage.GetOutputTokens() != s.out) {
		w.fail("usage adds up", "%+v is counted, the endpoint has %v", s, call.usage)
	}
}

// changed checks a record that says that a round was requested with different content. The same content in
// another form, by reference or inline, is not different. A fork is exempt, because it has requests of its
// source.
func (o *oracle) changed(run string, step uint32) {
	l, id := o.world.ledger, stepID{o.node.name, run, step}
	l.mu.Lock()
	round, known := l.rounds[id]
	asked := len(l.asked[round])
	l.mu.Unlock()
	if s := o.states[run]; known && asked < 2 && (s == nil || s.Forked == nil) && len(o.spent[run].heeds.texts) == 0 {
		o.world.fail("the same request is no other one", "%v: the record says that its request changed, and it was asked one thing only", id)
	}
}
