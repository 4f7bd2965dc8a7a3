package query

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// maxTaskLook bounds the tasks that one list looks at: beyond it the total is what
// was counted so far.
const maxTaskLook = 10_000

// ListTasksRequest is the argument of [Service.ListTasks].
type ListTasksRequest struct {
	runtime.Call
	// Tenant, ContextID: the tasks of one route, of one context; "" = all.
	Tenant    string
	ContextID string
	// StatusFrom: the status is of this time or later, Unix nanoseconds; 0 = all.
	StatusFrom int64
	// Match leaves the tasks that it is true for; nil = all.
	Match func(*machine.State) bool
	// PageToken is the previous page's NextPage; "" = from the start.
	PageToken string
	// PageSize is at most 1 000; 0 = 100.
	PageSize int
}

// TaskPage is one page of tasks.
type TaskPage struct {
	Runs []*machine.State
	// NextPage is "" after the last page.
	NextPage string
	// Total counts the tasks of all pages, among the 10 000 that are looked at.
	Total int
}

// ListTasks lists the caller's tasks, newest status first; those of everybody for
// a principal with the scope admin.
func (r *Service) ListTasks(ctx context.Context, req ListTasksRequest) (TaskPage, error) {
	ns, err := r.readable(req.Call)
	if err != nil {
		return TaskPage{}, err
	}
	size, err := validate.PageSize(req.PageSize)
	if err != nil {
		return TaskPage{}, err
	}
	after, err := parseTaskPlace(req.PageToken)
	if err != nil {
		return TaskPage{}, err
	}
	owner := req.Principal.Name()
	if req.Principal.Scopes.Has(policy.Admin) {
		owner = ""
	}
	var page TaskPage
	err = r.cfg.Store.Tasks(ctx, ns, owner, req.ContextID, maxTaskLook, func(s *machine.State) bool {
		if s.StatusAt < req.StatusFrom {
			return false
		}
		if req.Tenant != "" && req.Tenant != s.Task.Tenant || req.Match != nil && !req.Match(s) {
			return true
		}
		page.Total++
		place := taskPlace{s.StatusAt, s.RunID}
		switch {
		case !place.behind(after):
		case len(page.Runs) < size:
			page.Runs = append(page.Runs, s)
		case page.NextPage == "":
			last := page.Runs[size-1]
			page.NextPage = taskPlace{last.StatusAt, last.RunID}.String()
		}
		return true
	})
	if err != nil {
		return TaskPage{}, fmt.Errorf("query: list tasks: %w", err)
	}
	return page, nil
}

// taskPlace is a task's place in a list.
type taskPlace struct {
	statusAt int64
	run      string
}

// String is the page token that begins behind the place.
func (p taskPlace) String() string { return strconv.FormatInt(p.statusAt, 36) + "." + p.run }

// behind: the place comes after another one; the zero place is before all.
func (p taskPlace) behind(o taskPlace) bool {
	return o == taskPlace{} || p.statusAt < o.statusAt || p.statusAt == o.statusAt && p.run > o.run
}

func parseTaskPlace(token string) (taskPlace, error) {
	if token == "" {
		return taskPlace{}, nil
	}
	at, run, ok := strings.Cut(token, ".")
	nanos, err := strconv.ParseInt(at, 36, 64)
	if !ok || err != nil || run == "" {
		return taskPlace{}, validate.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
	}
	return taskPlace{nanos, run}, nil
}
