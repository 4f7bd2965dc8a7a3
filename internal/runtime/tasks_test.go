package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// TestListTasks: an owner sees its own, newest status first, page by page; an
// operator sees all.
func TestListTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	other := runtime.Principal{Subject: "other", Scopes: driver.Scopes}
	var mine []string
	for i := range 7 {
		owner := driver
		if i == 3 {
			owner = other
		}
		r.clock.Advance(time.Second)
		got, err := r.StartRun(ctx, runtime.StartRequest{
			Call: runtime.Call{Principal: owner}, Pack: "loop", Execution: machine.Workers, Variables: []byte(`{"goal":"g"}`),
			Task: &machine.Task{Owner: owner.Name(), ContextID: fmt.Sprint("c", i%2), Tenant: "loop/a"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if i != 3 {
			mine = append([]string{got.RunID}, mine...)
		}
	}
	list := func(p runtime.Principal, change func(*query.ListTasksRequest)) (ids []string, total int) {
		req := query.ListTasksRequest{Call: runtime.Call{Principal: p}, PageSize: 2}
		if change != nil {
			change(&req)
		}
		for {
			page, err := r.ListTasks(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Runs {
				ids = append(ids, s.RunID)
			}
			if req.PageToken = page.NextPage; req.PageToken == "" {
				return ids, page.Total
			}
		}
	}
	if got, total := list(driver, nil); fmt.Sprint(got) != fmt.Sprint(mine) || total != 6 {
		t.Fatalf("%v, %d, want %v", got, total, mine)
	}
	if got, total := list(runtime.Principal{Subject: "op", Scopes: runtime.ScopeAdmin}, nil); len(got) != 7 || total != 7 {
		t.Fatalf("an operator sees %v, %d", got, total)
	}
	if got, total := list(driver, func(q *query.ListTasksRequest) { q.ContextID = "c1" }); len(got) != 2 || total != 2 {
		t.Fatalf("of one context: %v, %d", got, total)
	}
	if got, _ := list(driver, func(q *query.ListTasksRequest) { q.Tenant = "other/a" }); len(got) != 0 {
		t.Fatalf("of another route: %v", got)
	}
	newest, err := r.StateAt(ctx, ref(mine[1], driver), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := list(driver, func(q *query.ListTasksRequest) { q.StatusFrom = newest.StatusAt }); len(got) != 2 {
		t.Fatalf("since a status: %v", got)
	}
	for _, token := range []string{"x", "1.", ".x", "!!.x"} {
		_, err := r.ListTasks(ctx, query.ListTasksRequest{Call: runtime.Call{Principal: driver}, PageToken: token})
		wantReason(t, err, "BAD_PAGE_TOKEN")
	}
	_, err = r.ListTasks(ctx, query.ListTasksRequest{Call: runtime.Call{Principal: nobody}})
	wantReason(t, err, "SCOPE_MISSING")
}
