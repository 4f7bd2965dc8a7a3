package a2a

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// expiredEngine is an engine with one page of tasks, whose first reader comes too late.
type expiredEngine struct {
	Engine
	err error
}

func (expiredEngine) PackNamed(context.Context, runtime.Call, string) (*pack.Pack, error) {
	return &pack.Pack{ID: "crew", Doc: &pack.Document{Agents: &pack.Agents{Entry: "writer"}}}, nil
}

func (expiredEngine) ListTasks(context.Context, query.ListTasksRequest) (query.TaskPage, error) {
	return query.TaskPage{Runs: []*machine.State{{RunID: "a"}}, Total: 1}, nil
}

func (expiredEngine) Graph(context.Context, string, *machine.State) (*machine.Graph, error) {
	return &machine.Graph{}, nil
}

func (expiredEngine) NamespaceName(uint32) string { return "default" }

func (v expiredEngine) Watch(context.Context, streams.Request) (*streams.Watch, error) {
	return nil, v.err
}

// anonymousHost is a host of callers without a name.
type anonymousHost struct{ Host }

func (anonymousHost) Principal(context.Context) runtime.Principal { return runtime.Principal{} }

// TestTasksThatVanishFromAPage: a task that is deleted or erased between the page of a list and
// its records is left out of the list; another fault is one.
func TestTasksThatVanishFromAPage(t *testing.T) {
	t.Parallel()
	deleted, erased := machine.Deleted{RunID: "a"}, machine.Erased{}
	broken := errors.New("the disk is gone")
	for _, err := range []error{deleted.Err(), erased.Err(), broken} {
		s := &Service{cfg: Config{Engine: expiredEngine{err: err}}, host: anonymousHost{}}
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("a2a-version", "1.0"))
		list, got := s.listTasks(ctx, &a2apb.ListTasksRequest{Tenant: "crew/writer"})
		switch {
		case errors.Is(err, broken):
			if !errors.Is(got, broken) {
				t.Errorf("%v", got)
			}
		case got != nil || len(list.GetTasks()) != 0 || list.GetTotalSize() != 0:
			t.Errorf("%v: %v, %v", err, list, got)
		}
	}
}
