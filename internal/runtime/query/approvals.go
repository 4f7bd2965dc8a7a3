package query

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// ApprovalsRequest is the argument of [Service.Approvals].
type ApprovalsRequest struct {
	runtime.Call
	// RunID selects the entries of one run. "" selects those of all runs.
	RunID string
	// OldestFirst reverses the order. By default the entries that began to wait last come first.
	OldestFirst bool
	// PageToken is the NextPage of the previous page. "" means the first page.
	PageToken string
	// PageSize is the maximum number of entries in a page, at most 1 000. 0 means 100.
	PageSize int
}

// WaitingItem is a tool call that waits for a person's approval, or a run that waits for an event from
// outside.
type WaitingItem struct {
	Namespace string
	State     *machine.State
	Graph     *machine.Graph
	Since     int64
	// Starter is the name of the principal that started the run.
	Starter string
	// Call is the call that waits for approval. It is nil if the run waits for an event from outside. Why
	// is the reason why the approval condition of the call could not be evaluated, or "".
	Call *history.StepView
	Why  string
	// Exits are the events by which the run can leave its state, and Artifacts are its artifacts. Both
	// are set only if the run waits for an event. Omitted reports whether the artifacts were left out
	// because they are large.
	Exits     []Exit
	Artifacts []runtime.ArtifactValue
	Omitted   bool
}

// Exit is an event by which a run can leave its state, with the state To that follows.
type Exit struct {
	Event, To, Description string
	Terminal               bool
}

// WaitingPage is one page of [Service.Approvals].
type WaitingPage struct {
	Waiting []WaitingItem
	// NextPage is the token of the next page. It is "" if there is none.
	NextPage string
}

// maxShownArtifacts bounds the artifacts of one run in the list, in bytes. A page ends when its values
// have maxWaitingBytes bytes.
const (
	maxShownArtifacts = 64 << 10
	maxWaitingBytes   = 1 << 20
)

// Approvals lists the tool calls that wait for approval, and the runs that need an event from outside
// to continue. Entries that were decided while the page was read are left out.
func (r *Service) Approvals(ctx context.Context, req ApprovalsRequest) (WaitingPage, error) {
	ns, err := r.cfg.Engine.Admit(req.Call, policy.RunsRead|policy.RunsWrite|policy.StepsApprove)
	if err != nil {
		return WaitingPage{}, err
	}
	size, err := validate.PageSize(req.PageSize)
	if err != nil {
		return WaitingPage{}, err
	}
	after, err := parseHeldPlace(req.PageToken)
	if err != nil {
		return WaitingPage{}, err
	}
	places, err := r.heldRows(ctx, ns, &req, after, size)
	if err != nil {
		return WaitingPage{}, validate.ListFailed("approvals", err)
	}
	var page WaitingPage
	bytes := int64(0)
	for i, place := range places {
		if i == size || bytes >= maxWaitingBytes {
			page.NextPage = heldToken(places[i-1])
			break
		}
		w, found, err := r.readWaiting(ctx, ns, &req, place)
		if err != nil {
			return WaitingPage{}, err
		}
		if found {
			page.Waiting = append(page.Waiting, w)
			bytes += w.bytes()
		}
	}
	return page, nil
}

func (w *WaitingItem) bytes() int64 {
	n := int64(0)
	if w.Call != nil {
		n = w.Call.Bytes()
	}
	for i := range w.Artifacts {
		n += int64(len(w.Artifacts[i].Value))
	}
	return n
}

// heldRows returns the rows of the index [machine.HeldIndex] for one page, and one row more if there
// is a next page. For a single run it returns all rows from the beginning of the page.
func (r *Service) heldRows(ctx context.Context, ns uint32, req *ApprovalsRequest, after machine.HeldPlace, size int) ([]machine.HeldPlace, error) {
	if req.RunID == "" {
		return r.cfg.Store.Held(ctx, ns, after, !req.OldestFirst, size+1)
	}
	key, err := r.cfg.Engine.Find(runtime.RunRef{Call: req.Call, RunID: req.RunID})
	if err != nil {
		return nil, err
	}
	s, err := r.cfg.Engine.StateOf(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	var places []machine.HeldPlace
	for _, row := range rules.Indexes(s) {
		if row.Index == machine.HeldIndex {
			places = append(places, machine.HeldPlace{Value: row.Value, Run: s.RunID})
		}
	}
	order := func(a, b machine.HeldPlace) int {
		return cmp.Or(strings.Compare(a.Value, b.Value), strings.Compare(a.Run, b.Run))
	}
	if !req.OldestFirst {
		older := order
		order = func(a, b machine.HeldPlace) int { return older(b, a) }
	}
	slices.SortFunc(places, order)
	if after == (machine.HeldPlace{}) {
		return places, nil
	}
	// The row of the token may have been decided in the meantime, so its place counts and not the row itself.
	return slices.DeleteFunc(places, func(p machine.HeldPlace) bool { return order(p, after) <= 0 }), nil
}

// readWaiting reads the data about one row of the index [machine.HeldIndex]. It returns false if the call
// or the run no longer waits for a person.
func (r *Service) readWaiting(ctx context.Context, ns uint32, req *ApprovalsRequest, place machine.HeldPlace) (WaitingItem, bool, error) {
	since, step, err := machine.ParseHeldValue(place.Value)
	if err != nil {
		return WaitingItem{}, false, err
	}
	key := runtime.RunKey{Namespace: ns, ID: place.Run}
	s, err := r.cfg.Engine.StateOf(ctx, key, 0)
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Code == machine.CodeNotFound {
		return WaitingItem{}, false, nil
	}
	if err != nil {
		return WaitingItem{}, false, err
	}
	w := WaitingItem{Namespace: req.Namespace, State: s, Since: since}
	if w.Graph, err = r.Graph(ctx, req.Namespace, s); err != nil {
		return w, false, err
	}
	scene := approval.RunContext{Past: r.cfg.Past, Key: key}
	if w.Starter, err = scene.Starter(ctx); err != nil {
		return w, false, err
	}
	if step == 0 {
		found, err := r.event(ctx, key, &w)
		return w, found, err
	}
	found, err := r.call(ctx, key, &w, step)
	return w, found, err
}

// call sets the call of a list entry that waits for approval. It returns false if the call no longer
// waits for a decision.
func (r *Service) call(ctx context.Context, key runtime.RunKey, w *WaitingItem, step uint32) (bool, error) {
	for i := range w.State.Steps {
		p := &w.State.Steps[i]
		if p.Step != step || !p.HeldForApproval() {
			continue
		}
		view, err := r.cfg.Past.Step(ctx, key, p)
		if err != nil {
			return false, err
		}
		w.Call = &view
		body, err := r.cfg.Past.Body(ctx, key, p.RequestSeq)
		if asked, ok := body.(*machine.StepRequested); ok && asked.Hold != nil {
			w.Why = asked.Hold.Why
		}
		return true, err
	}
	return false, nil
}

// event sets the exits and artifacts of a list entry. It returns false if the run does not wait for an
// event from outside.
func (r *Service) event(ctx context.Context, key runtime.RunKey, w *WaitingItem) (bool, error) {
	s := w.State
	node := w.Graph.States[s.Current]
	if node == nil || len(machine.HeldRows(s)) == 0 || machine.HeldRows(s)[0].Step != 0 {
		return false, nil
	}
	p, err := r.PackOf(ctx, w.Namespace, s)
	if err != nil {
		return false, err
	}
	for event, to := range node.OnEvent {
		exit := Exit{Event: event, To: to, Terminal: w.Graph.States[to].Terminal}
		if p.Doc.Workflow != nil && p.Doc.Workflow.States[to] != nil {
			exit.Description = p.Doc.Workflow.States[to].Description
		}
		w.Exits = append(w.Exits, exit)
	}
	slices.SortFunc(w.Exits, func(a, b Exit) int { return strings.Compare(a.Event, b.Event) })
	if w.Omitted = s.ArtifactBytes > maxShownArtifacts; w.Omitted {
		return true, nil
	}
	w.Artifacts, err = r.cfg.Past.Artifacts(ctx, key, s, s.Seq)
	return true, err
}

func heldToken(p machine.HeldPlace) string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.Value + p.Run))
}

func parseHeldPlace(token string) (machine.HeldPlace, error) {
	if token == "" {
		return machine.HeldPlace{}, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= machine.HeldValueLen {
		return machine.HeldPlace{}, validate.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
	}
	place := machine.HeldPlace{Value: string(raw[:machine.HeldValueLen]), Run: string(raw[machine.HeldValueLen:])}
	if _, _, err := machine.ParseHeldValue(place.Value); err != nil {
		return machine.HeldPlace{}, validate.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
	}
	return place, nil
}
