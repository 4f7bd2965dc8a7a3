package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	gosched "runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestReceiversOutliveNoRight: a webhook and the push configuration of a task are served as
// long as their owner has the right to read. While its token is gone nothing is sent, which
// both say; with the right back everything that was missed is.
func TestReceiversOutliveNoRight(t *testing.T) {
	t.Parallel()
	var hooked, pushed atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/push") {
			pushed.Add(1)
			return
		}
		hooked.Add(1)
	}))
	defer receiver.Close()
	c := settings(t)
	c.Packs, c.PushAllow = []string{packAt(t)}, []string{"127.0.0.1"}
	c.TokensFile = tokens(t, "ann", "runs:write,runs:read", "root", "admin")
	s := serveToEnd(t, c)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0")
	owner := dialAs(t, s, "ann")
	if _, err := pawlv1.NewDeliveryServiceClient(owner).PutWebhook(ctx, &pawlv1.PutWebhookRequest{WebhookId: "hook", Url: receiver.URL + "/hook", Secret: hookSecret()}); err != nil {
		t.Fatal(err)
	}
	sent, err := a2apb.NewA2AServiceClient(owner).SendMessage(ctx, &a2apb.SendMessageRequest{
		Tenant: "team/helper", Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "go"}}}},
		Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Id: "push", Url: receiver.URL + "/push"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for hooked.Load() == 0 {
		gosched.Gosched() // the record of the start comes
	}
	everything, err := os.ReadFile(c.TokensFile)
	if err != nil {
		t.Fatal(err)
	}
	reread := func(content string) {
		if err := os.WriteFile(c.TokensFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	_, rest, _ := strings.Cut(string(everything), "\n")
	reread(rest)
	for err == nil {
		_, err = pawlv1.NewRunServiceClient(owner).GetCaller(ctx, &pawlv1.GetCallerRequest{})
	}
	hooks, pushes := hooked.Load(), pushed.Load()
	operator := dialAs(t, s, "root")
	deliveries := pawlv1.NewDeliveryServiceClient(operator)
	if _, err := pawlv1.NewRunServiceClient(operator).CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: sent.GetTask().GetId()}); err != nil {
		t.Fatal(err)
	}
	for told := 0; told < 2; {
		list, err := deliveries.ListDeliveries(ctx, &pawlv1.ListDeliveriesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		told = strings.Count(fmt.Sprint(list), "OWNER_LOST_RIGHT")
	}
	if hooked.Load() != hooks || pushed.Load() != pushes {
		t.Errorf("%d and %d were sent to receivers of who may not read", hooked.Load()-hooks, pushed.Load()-pushes)
	}
	reread(string(everything))
	for hooked.Load() == hooks || pushed.Load() == pushes {
		if _, err := deliveries.ListDeliveries(ctx, &pawlv1.ListDeliveriesRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		list, err := deliveries.ListDeliveries(ctx, &pawlv1.ListDeliveriesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprint(list), "OWNER_LOST_RIGHT") {
			break
		}
	}
}
