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

// maxTaskLook bounds the number of tasks that one list examines. If there are more, they are neither
// listed nor counted in the total.
const maxTaskLook = 10_000

// ListTasksRequest is the argument of [Service.ListTasks].
type ListTasksRequest struct {
	runtime.Call
	// Tenant selects the tasks of one called agent, and ContextID those of one context. "" selects all.
	Tenant    string
	ContextID string
	// StatusFrom selects tasks whose status has changed at this time or later, in Unix nanoseconds. 0
	// selects all.
	StatusFrom int64
	// Match is an additional filter: tasks for which it returns false are left out. If it is nil, all
	// tasks are selected.
	Match func(*machine.State) bool
	// PageToken is the NextPage of the previous page. "" means the first page.
	PageToken string
	// PageSize is the maximum number of tasks in a page, at most 1 000. 0 means 100.
	PageSize int
}

// TaskPage is one page of tasks.
type TaskPage struct {
	Runs []*machine.State
	// NextPage is the token of the next page. It is "" if there is none.
	NextPage string
	// Total is the number of tasks on all pages, of the at most 10 000 tasks that were examined.
	Total int
}

// ListTasks lists the caller's A2A tasks, the task with the newest status first. A principal with the
// scope admin gets the tasks of all principals.
func (r *Service) ListTasks(ctx context.Context, req ListTasksRequest) (TaskPage, error) {
	ns, err := r.readableNamespace(req.Call)
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
		case !place.isAfter(after): // the task is on an earlier page
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

// taskPlace is the position of a task in a list.
type taskPlace struct {
	statusAt int64
	run      string
}

// String returns the token of the page that begins after this position.
func (p taskPlace) String() string { return strconv.FormatInt(p.statusAt, 36) + "." + p.run }

// isAfter reports whether the position p comes after the position o in the list. The zero position comes
// before all others.
func (p taskPlace) isAfter(o taskPlace) bool {
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
