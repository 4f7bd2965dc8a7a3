package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// inbox receives pushed events; closed, it answers 503.
type inbox struct {
	mu     sync.Mutex
	closed bool
	states []a2apb.TaskState
	chunks []string
	header http.Header
	refuse chan struct{}
	ended  chan struct{}
}

func newInbox() *inbox {
	return &inbox{closed: true, refuse: make(chan struct{}, 100), ended: make(chan struct{})}
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		select {
		case b.refuse <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var event a2apb.StreamResponse
	if protojson.Unmarshal(raw, &event) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.header = r.Header
	if piece := event.GetArtifactUpdate(); piece != nil {
		b.chunks = append(b.chunks, piece.GetArtifact().GetParts()[0].GetText())
		return
	}
	state := event.GetStatusUpdate().GetStatus().GetState()
	b.states = append(b.states, state)
	if state == a2apb.TaskState_TASK_STATE_COMPLETED {
		close(b.ended)
	}
}

func (b *inbox) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = false
}

func agentsOf(t *testing.T, s *runningSidecar) a2apb.A2AServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(s.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return a2apb.NewA2AServiceClient(conn)
}

// TestPush: a receiver that is away gets every event of a task, in order, once it
// is back, although the task has ended and the sidecar was restarted meanwhile.
func TestPush(t *testing.T) {
	t.Parallel()
	box := newInbox()
	receiver := httptest.NewServer(box)
	defer receiver.Close()
	c := settings(t)
	c.Packs, c.PushAllow = []string{packAt(t)}, []string{"127.0.0.1"}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0")

	first := serve(t, c)
	runs := runWorker(t, first, "w", map[string]pawl.TurnFunc{"helper": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
		for _, words := range []string{"one", "two"} {
			if err := turn.Write(ctx, &pawlv1.OutputPiece{Id: "draft", Parts: text(words), Append: words != "one"}); err != nil {
				return pawl.Completion{}, err
			}
		}
		return pawl.Completion{Output: text("done")}, nil
	}})
	agents := agentsOf(t, first)
	sent, err := agents.SendMessage(ctx, &a2apb.SendMessageRequest{
		Tenant:  "team/helper",
		Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "go"}}}},
		Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{
			Url: receiver.URL, Token: "secret", Authentication: &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: "hush"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	task := sent.GetTask().GetId()
	if got, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: task}); err != nil || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("ended %v, %v", got, err)
	}
	<-box.refuse
	list, err := agents.ListTaskPushNotificationConfigs(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{Tenant: "team/helper", TaskId: task})
	if err != nil || len(list.GetConfigs()) != 1 || list.GetConfigs()[0].GetToken() == "secret" || list.GetConfigs()[0].GetAuthentication().GetCredentials() == "hush" {
		t.Fatalf("configurations %v, %v", list, err)
	}
	first.stop()
	if err := <-first.ended; err != nil {
		t.Fatal(err)
	}
	box.open()
	serveToEnd(t, c)
	select {
	case <-box.ended:
	case <-ctx.Done():
		t.Fatalf("only %v and %v arrived", box.states, box.chunks)
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	if want := []string{"one", "two", "done"}; !slices.Equal(box.chunks, want) {
		t.Errorf("pieces %v, want %v", box.chunks, want)
	}
	if !slices.IsSorted(box.states) || len(box.states) < 2 {
		t.Errorf("states %v", box.states)
	}
	if box.header.Get("X-A2a-Notification-Token") != "secret" || box.header.Get("Authorization") != "Bearer hush" {
		t.Errorf("headers %v", box.header)
	}
}

// TestBadPushConfigs: what could not be delivered, or would change a header, is
// refused by name before it is stored; a task has 16 configurations at most.
func TestBadPushConfigs(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.Packs = []string{packAt(t)}
	agents := agentsOf(t, serveToEnd(t, c))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0")
	sent, err := agents.SendMessage(ctx, &a2apb.SendMessageRequest{
		Tenant: "team/helper", Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true},
		Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "go"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	create := func(config *a2apb.TaskPushNotificationConfig) error {
		config.Tenant, config.TaskId = "team/helper", sent.GetTask().GetId()
		_, err := agents.CreateTaskPushNotificationConfig(ctx, config)
		return err
	}
	const url = "https://receiver.example/x"
	for name, bad := range map[string]*a2apb.TaskPushNotificationConfig{
		"no URL":                  {},
		"no scheme":               {Url: "receiver.example/x"},
		"only a host":             {Url: "//receiver.example/x"},
		"another scheme":          {Url: "ftp://receiver.example/x"},
		"no host":                 {Url: "https:///x"},
		"a password":              {Url: "https://me:pw@receiver.example/x"},
		"a line break in a token": {Url: url, Token: "a\r\nX-Admin: 1"},
		"a NUL in a token":        {Url: url, Token: "a\x00b"},
		"a line break in a scheme": {
			Url: url, Authentication: &a2apb.AuthenticationInfo{Scheme: "Bearer\nX: 1", Credentials: "c"},
		},
		"a line break in credentials": {
			Url: url, Authentication: &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: "c\nX: 1"},
		},
	} {
		if err := create(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range 16 {
		if err := create(&a2apb.TaskPushNotificationConfig{Id: fmt.Sprint("c", n), Url: url}); err != nil {
			t.Fatalf("configuration %d: %v", n+1, err)
		}
	}
	if err := create(&a2apb.TaskPushNotificationConfig{Url: url}); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limit 16, got 17") {
		t.Errorf("the 17th: %v", err)
	}
	if err := create(&a2apb.TaskPushNotificationConfig{Id: "c3", Url: url + "/other"}); err != nil {
		t.Errorf("one that takes another's place: %v", err)
	}
}
