package a2a_test

import (
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestDeletedTask: a task whose run was deleted is one that is not there, for every
// operation and over every binding, and its message begins no other.
func TestDeletedTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := r.context("", "a2a-extensions", "https://pawl.dev/a2a/delegation/v1")
	first := message("crew/writer", "ask which?")
	id := r.send(ctx, first).GetId()
	if _, err := r.client.CancelTask(ctx, &a2apb.CancelTaskRequest{Tenant: "crew/writer", Id: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := pawlv1.NewRunServiceClient(r.conn).DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: id}); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"get": func() error {
			_, err := r.client.GetTask(ctx, &a2apb.GetTaskRequest{Tenant: "crew/writer", Id: id})
			return err
		},
		"cancel": func() error {
			_, err := r.client.CancelTask(ctx, &a2apb.CancelTaskRequest{Tenant: "crew/writer", Id: id})
			return err
		},
		"send": func() error {
			req := message("crew/writer", "more")
			req.Message.TaskId = id
			_, err := r.client.SendMessage(ctx, req)
			return err
		},
		"subscribe": func() error {
			stream, err := r.client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Tenant: "crew/writer", Id: id})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"its message": func() error {
			_, err := r.client.SendMessage(ctx, first)
			return err
		},
	} {
		if err := do(); status.Code(err) != codes.NotFound || !strings.Contains(status.Convert(err).Proto().String(), "TASK_NOT_FOUND") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := r.http("GET", "/crew%2Fwriter/tasks/"+id, ""); got.status != 404 || !strings.Contains(got.String(), "TASK_NOT_FOUND") {
		t.Errorf("REST: %v", got)
	}
	if got := r.http("POST", "/a2a/crew/writer", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"`+id+`"}}`); !strings.Contains(got.String(), `"code":-32001`) {
		t.Errorf("JSON-RPC: %v", got)
	}
}

// TestListTasksWhileTheyAreDeleted: a task that is deleted while a list is made is left out
// of it, and the list is answered.
func TestListTasksWhileTheyAreDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := r.context("")
	var ids []string
	for range 30 {
		id := r.send(ctx, message("crew/writer", "ask which?")).GetId()
		if _, err := r.client.CancelTask(ctx, &a2apb.CancelTaskRequest{Tenant: "crew/writer", Id: id}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	deleted := make(chan error, 1)
	go func() {
		runs := pawlv1.NewRunServiceClient(r.conn)
		for _, id := range ids {
			if _, err := runs.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: id}); err != nil {
				deleted <- err
				return
			}
		}
		deleted <- nil
	}()
	for remaining := len(ids); remaining > 0; {
		list, err := r.client.ListTasks(ctx, &a2apb.ListTasksRequest{Tenant: "crew/writer"})
		if err != nil {
			t.Fatalf("%d of %d were left: %v", remaining, len(ids), err)
		}
		if remaining = len(list.GetTasks()); remaining == len(ids) && ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
}
