package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
)

const quotasFile = `
namespace: {open_runs: 3, packs: 2, webhooks: 1, consumers: 1, streams: 2, workers: 1}
namespaces:
  blue: {calls_per_second: 1}
principals:
  runs:read/red: {calls_per_second: 1}
`

// quotaOf returns the quota that an error names, the code of the error, and whether the
// error says when to try again.
func quotaOf(err error) (name string, code codes.Code, again bool) {
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			name = d.GetMetadata()["quota"]
		case *errdetails.RetryInfo:
			again = d.GetRetryDelay().AsDuration() > 0
		}
	}
	return name, status.Code(err), again
}

func wantQuota(t *testing.T, err error, want string) {
	t.Helper()
	if name, code, _ := quotaOf(err); name != want || code != codes.ResourceExhausted {
		t.Errorf("got %v, want the quota %s", err, want)
	}
}

func (x *tenant) begin(namespace, id string) (*pawlv1.StartRunResponse, error) {
	return x.runs.StartRun(x.ctx, &pawlv1.StartRunRequest{Namespace: namespace, Pack: "team", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: id})
}

// TestQuotas: a namespace has no more open runs than its quota, over each port and with any number
// of starts at once. Runs that end make room, a restart makes none, and another namespace has a
// quota of its own. A file that is read again takes effect at once, and a faulty one never.
func TestQuotas(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "quotas.yaml", quotasFile)
	var c config.Config
	r := newOperationsRig(t, func(with *config.Config) { with.QuotasFile = file; c = *with })
	home, red := r.tenant(keyOf("admin", "home")), r.tenant(keyOf("admin", "red"))
	if _, err := red.packs.RegisterPack(red.ctx, &pawlv1.RegisterPackRequest{Content: []byte(teamPack)}); err != nil {
		t.Fatal(err)
	}
	runs := home.fillRuns(t, 20, 3)
	if _, err := red.begin("", "a"); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	r.startEverywhere("namespace.open_runs")
	_, err := home.begin("", "late")
	if name, _, again := quotaOf(err); name != "namespace.open_runs" || !again {
		t.Errorf("got %v", err)
	}
	if got, err := home.begin("", runs[0]); err != nil || !got.GetDuplicate() {
		t.Errorf("a repeat: %v, %v", got, err)
	}

	// The next process counts the runs that exist.
	r.s.stop()
	ended := <-r.s.ended
	if r.s.ended <- ended; ended != nil { // its end is looked at once more
		t.Fatal(ended)
	}
	var log *logged
	r.s, log = serveLogged(t, c)
	r.conn = dial(t, r.s.ready.GRPC)
	home = r.tenant(keyOf("admin", "home"))
	_, err = home.begin("", "late")
	wantQuota(t, err, "namespace.open_runs")
	again, err := home.begin("", runs[0])
	if err == nil {
		_, err = home.runs.CancelRun(home.ctx, &pawlv1.CancelRunRequest{RunId: again.GetRun().GetRunId()})
	}
	if err == nil {
		_, err = home.begin("", "late")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = home.begin("", "later")
	wantQuota(t, err, "namespace.open_runs")
	if page := r.metricsPage(); !strings.Contains(page, `pawl_quota_used{namespace="default",resource="open_runs"} 3`) ||
		!strings.Contains(page, `pawl_quota{namespace="red",resource="open_runs"} 3`) {
		t.Error("the metrics do not tell of the quota")
	}

	// A faulty file changes nothing, a sound one takes effect at once.
	rewrite := func(text string) {
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	for faulty, told := range map[string]string{"namespace: {open_runs: -1}": "is -1", "": "is empty"} {
		rewrite(faulty)
		log.await(t, told)
		_, err = home.begin("", "later")
		wantQuota(t, err, "namespace.open_runs")
	}
	rewrite("namespace: {open_runs: 4}")
	for {
		if _, err = home.begin("", "later"); err == nil {
			break
		}
		wantQuota(t, err, "namespace.open_runs")
	}
	_, err = home.begin("", "latest")
	wantQuota(t, err, "namespace.open_runs")
}

// fillRuns starts many runs at once, and returns the ids of those that the quota allows.
// Their number must be most.
func (x *tenant) fillRuns(t *testing.T, many, most int) []string {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	var ids []string
	for i := range many {
		all.Go(func() {
			id := fmt.Sprint("crowd-", i)
			_, err := x.begin("", id)
			if err != nil {
				wantQuota(t, err, "namespace.open_runs")
				return
			}
			mu.Lock()
			ids = append(ids, id)
			mu.Unlock()
		})
	}
	all.Wait()
	if len(ids) != most {
		t.Fatalf("%d runs were begun, %d may be", len(ids), most)
	}
	return ids
}

// startEverywhere starts a run over each port. The quota refuses each.
func (r *operationsRig) startEverywhere(quota string) {
	r.t.Helper()
	key := keyOf("admin", "home")
	gateway, agent := "http://"+r.s.ready.HTTP+"/v1/runs", "http://"+r.s.ready.HTTP+"/a2a/team/helper"
	message := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"}]}}`
	for where, body := range map[string]string{
		gateway: `{"pack":"team","execution":"EXECUTION_CALLER"}`, agent + "/message:send": message,
		agent: `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + message + `}`,
	} {
		if got := r.body(where, body, key); !strings.Contains(got, `"QUOTA_EXCEEDED"`) || !strings.Contains(got, quota) {
			r.t.Errorf("%s: %s", where, got)
		}
	}
}

// body returns the answer to a request over HTTP.
func (r *operationsRig) body(where, body, key string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, where, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2a-Version", "1.0")
	return r.answer(req, key)
}

func (r *operationsRig) answer(req *http.Request, key string) string {
	r.t.Helper()
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

func (r *operationsRig) metricsPage() string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.s.ready.Metrics+"/metrics", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.answer(req, keyOf("admin", "free"))
}

// TestQuotasOfEverything: each resource with a quota of a namespace is used up to its bound and
// beyond it, and another namespace is not affected.
func TestQuotasOfEverything(t *testing.T) {
	t.Parallel()
	r := newOperationsRig(t, func(c *config.Config) { c.QuotasFile = writeFile(t, "quotas.yaml", quotasFile) })
	for _, x := range []*tenant{r.tenant(keyOf("admin", "red")), r.tenant(keyOf("admin", "home"))} {
		x.fillLimits(t)
	}
	// Of the calls per second, the first call is taken, and one that follows at once is refused.
	blue, reader := r.tenant(keyOf("admin", "free")), r.tenant(keyOf("runs:read", "red"))
	for name, list := range map[string]func() error{
		"namespace.calls_per_second": func() error {
			_, err := blue.runs.ListRuns(blue.ctx, &pawlv1.ListRunsRequest{Namespace: "blue"})
			return err
		},
		"principal.calls_per_second": func() error {
			_, err := reader.runs.ListRuns(reader.ctx, &pawlv1.ListRunsRequest{})
			return err
		},
	} {
		err := list()
		for err == nil {
			err = list()
		}
		wantQuota(t, err, name)
		if _, _, again := quotaOf(err); !again || reasonOfError(err) != "RATE_LIMITED" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := blue.runs.ListRuns(blue.ctx, &pawlv1.ListRunsRequest{Namespace: "red"}); err != nil {
		t.Errorf("the other namespace of the same principal: %v", err)
	}
}

// fillLimits takes everything that a namespace may have, and then asks for one more of each.
func (x *tenant) fillLimits(t *testing.T) {
	t.Helper()
	var named atomic.Int64
	pack := func() error {
		content := strings.NewReplacer(`"id": "team"`, fmt.Sprintf(`"id": "p%d"`, named.Add(1))).Replace(teamPack)
		_, err := x.packs.RegisterPack(x.ctx, &pawlv1.RegisterPackRequest{Content: []byte(content)})
		return err
	}
	hook := func() error {
		_, err := x.hooks.PutWebhook(x.ctx, &pawlv1.PutWebhookRequest{WebhookId: fmt.Sprint("h", named.Add(1)), Url: "https://example.com/", Secret: hookSecret()})
		return err
	}
	consumer := func() error {
		ctx, cancel := context.WithCancel(x.ctx)
		defer cancel()
		stream, err := x.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Consumer: fmt.Sprint("c", named.Add(1))})
		for err == nil {
			_, err = stream.Recv()
		}
		if err == io.EOF {
			err = nil
		}
		return err
	}
	stream := func() error {
		stream, err := x.runs.StreamTransitions(x.ctx, &pawlv1.StreamTransitionsRequest{Follow: true})
		if err != nil {
			return err
		}
		if admitted, err := stream.Header(); err != nil || len(admitted) > 0 {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	work := func() error {
		stream, err := x.work.Work(x.ctx)
		if err == nil {
			err = stream.Send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Register{Register: &pawlv1.WorkerRegistration{WorkerId: fmt.Sprint("w", named.Add(1)), TurnCapacity: 1}}})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for _, one := range []struct {
		name string
		take func() error
	}{
		// A consumer is made over a stream, so it comes before all streams are taken.
		{"packs", pack}, {"webhooks", hook}, {"consumers", consumer}, {"streams", stream}, {"workers", work},
	} {
		taken := 0
		err := one.take()
		for ; err == nil && taken < 10; taken++ {
			err = one.take()
		}
		wantQuota(t, err, "namespace."+one.name)
		if taken == 0 {
			t.Errorf("%s: not one", one.name)
		}
		if _, _, again := quotaOf(err); one.name == "workers" && !again {
			t.Errorf("it is not said when a worker may come back: %v", err)
		}
	}
}
