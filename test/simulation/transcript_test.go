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

// content is what a model is shown, as one text.
func content(system, tools, parameters string, messages []*pawlv1.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q\n%q\n%q\n", system, tools, parameters)
	for _, m := range messages {
		raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // of texts
		fmt.Fprintf(&b, "%q\n", raw)
	}
	return b.String()
}

// transcript holds what GetModelStep shows of a step against what was asked of its round and
// what was answered, byte for byte, and returns what it shows.
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

// lastShown is what the model of a step was shown in the last attempt from one on; "" =
// nobody heard of any.
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

// judged takes errors over the wire that no call may have.
func (w *world) judged(name string, err error) {
	switch status.Code(err) {
	case codes.Internal, codes.DataLoss:
		w.fail("no internal errors", "%s: %v", name, err)
	}
}

// steps are those whose models were shown something, of one node.
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

// settled holds, in the end, the records of models against what executors know: transcripts,
// usage, and that no effect came of one call twice.
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
			// The attempts from the last request on that was put anew ask what that one does, but
			// for those of which the record says otherwise.
			said := &o.spent[id.run].talk
			from := max(said.anew[id.step], said.other[id.step]+1)
			want := w.ledger.lastShown(id, from)
			if said.repeated(id.step) {
				// What people said is in the record of a round before, and the execution that asked this one,
				// which took that round's answer from the record, had not heard it: it hears nothing.
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
	// late: nobody waited for the call any more.
	late bool
}

// spendings are what the records of a node count of calls of models, over all runs.
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

// usage: what executors told and were heard with is counted once, and nothing else is.
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
			// Behind the bound, which was settled or given back, what is not told counts nothing.
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
			continue // of a lease what nobody told is taken for consumed
		}
		if state := o.states[s.run]; state != nil && state.Execution == machine.Sidecar {
			w.asked(s)
			continue
		}
		w.fail("usage adds up", "%+v is counted, and nobody told it, or only once", s)
	}
}

// asked: what the sidecar's own executor has counted was consumed at the endpoint.
func (w *world) asked(s spending) {
	id := s.responseID
	if at := strings.LastIndex(id, "response-"); at >= 0 {
		id = id[at:]
	}
	call := w.endpoint.known(id)
	if s.responseID != "" && call != nil && call.silence != saysAll {
		// What is read is estimated by bytes, which may be less than it was.
		in := call.silence == saysInput && s.in == call.usage.GetInputTokens() || call.silence != saysInput && s.in > 0
		if told := call.told(); s.late && s.in == told.GetInputTokens() && s.out == told.GetOutputTokens() {
			return // the bound was given back with the end of the run
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

// changed: the sidecar says that something else was asked of a round than before. Whoever says
// the same in another way, by reference or inline, does not. A fork has requests of its source.
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
