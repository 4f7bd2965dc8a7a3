package query

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// DecisionsRequest is the argument of [Service.Decisions]. An empty field selects everything.
type DecisionsRequest struct {
	runtime.Call
	RunID string
	// From and To bound the time of the decision, in Unix nanoseconds. To itself is excluded.
	From, To int64
	Tool     string
	// By is the principal that decided.
	By       string
	Verdicts []machine.Verdict
	// Pack is "id", "id@version" or a digest. Labels are labels that the run must have.
	Pack   string
	Labels []machine.Label
	// Position is the Next of the page before. "" means the first page.
	Position string
	// PageSize is the maximum number of decisions in a page, at most 1 000. 0 means 100.
	PageSize int
}

// Decision is a decision about a call that waited for approval, or the fact that there was none in time.
type Decision struct {
	// State is the state of the run before the decision, or the newest one if that cannot be replayed.
	State *machine.State
	Row   runtime.RecordRow
	// Since is the time at which the call began to wait. It is 0 if it is not known.
	Since int64
}

// DecisionsPage is one page of [Service.Decisions].
type DecisionsPage struct {
	Decisions []Decision
	// Next is the position of the next page. It is "" if there is none.
	Next string
	// Removed is the number of journal entries of deleted runs that were examined for the page and that the page does
	// not contain.
	Removed uint64
}

// Decisions lists the decisions about calls that waited for approval, the newest first. Each page reads a bounded part of the journal,
// so it may be short or empty although more follow.
func (r *Service) Decisions(ctx context.Context, req *DecisionsRequest) (DecisionsPage, error) {
	ns, err := r.cfg.Engine.Admit(req.Call, policy.RunsRead|policy.RunsWrite|policy.StepsApprove)
	if err != nil {
		return DecisionsPage{}, err
	}
	search := machine.DecisionSearch{Run: req.RunID, From: req.From}
	if search.Limit, err = validate.PageSize(req.PageSize); err != nil {
		return DecisionsPage{}, err
	}
	if req.Position != "" {
		if search.Before, err = strconv.ParseUint(req.Position, 10, 64); err != nil {
			return DecisionsPage{}, validate.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
		}
	}
	if req.RunID != "" {
		if _, err := r.cfg.Engine.StateOf(ctx, runtime.RunKey{Namespace: ns, ID: req.RunID}, 0); err != nil {
			return DecisionsPage{}, err
		}
	}
	found, err := r.cfg.Store.Decisions(ctx, ns, search)
	if err != nil {
		return DecisionsPage{}, validate.ListFailed("decisions", err)
	}
	page := DecisionsPage{Removed: found.Removed}
	if found.Next != 0 {
		page.Next = strconv.FormatUint(found.Next, 10)
	}
	for i := range found.Entries {
		if err := r.addDecisions(ctx, ns, req, &found.Entries[i], &page); err != nil {
			return DecisionsPage{}, err
		}
	}
	return page, nil
}

// addDecisions adds the selected decisions of a journal entry to a page.
func (r *Service) addDecisions(ctx context.Context, ns uint32, req *DecisionsRequest, entry *machine.Entry, page *DecisionsPage) error {
	for i := range slices.Backward(entry.Records) {
		rec := &entry.Records[i]
		decided, ok := rec.Body.(*machine.StepDecided)
		if !ok || !req.selects(rec, decided) {
			continue
		}
		d := Decision{Row: runtime.RecordRow{
			RunID: entry.RunID, Record: *rec, PrevSeq: rec.Seq - 1, PrevHash: entry.PrevHash, Hash: entry.Hash, Erased: entry.Erased,
			Cursor: runtime.Cursor{Epoch: r.cfg.Store.Epoch(), Position: entry.Cursor, Index: uint16(i)},
		}}
		err := r.before(ctx, runtime.RunKey{Namespace: ns, ID: entry.RunID}, entry.First-1, decided.Step, &d)
		if refusal, gone := errors.AsType[*machine.Error](err); gone && refusal.Code == machine.CodeNotFound {
			page.Removed++ // the run was deleted while the page was read
			continue
		}
		if err != nil {
			return err
		}
		if req.selectsRun(d.State) {
			page.Decisions = append(page.Decisions, d)
		}
	}
	return nil
}

// before sets the state of a run before a decision, and the time at which the call began to wait.
func (r *Service) before(ctx context.Context, key runtime.RunKey, seq uint64, step uint32, d *Decision) (err error) {
	if !d.Row.Erased {
		d.State, err = r.cfg.Engine.StateOf(ctx, key, seq)
	}
	if err != nil || d.State == nil {
		d.State, err = r.cfg.Engine.StateOf(ctx, key, 0)
		return err
	}
	for i := range d.State.Steps {
		if p := &d.State.Steps[i]; p.Step == step && p.Approval != nil {
			d.Since = p.Approval.Since
		}
	}
	return nil
}

func (req *DecisionsRequest) selects(rec *machine.Record, d *machine.StepDecided) bool {
	return rec.At >= req.From && (req.To == 0 || rec.At < req.To) &&
		(req.Tool == "" || d.Tool == req.Tool) &&
		(req.By == "" || rec.Principal == req.By) &&
		(len(req.Verdicts) == 0 || slices.Contains(req.Verdicts, d.Verdict))
}

func (req *DecisionsRequest) selectsRun(s *machine.State) bool {
	if req.Pack != "" && req.Pack != s.PackID && req.Pack != s.Digest && req.Pack != s.PackID+"@"+s.PackVersion {
		return false
	}
	for _, l := range req.Labels {
		if !slices.Contains(s.Labels, l) {
			return false
		}
	}
	return true
}
