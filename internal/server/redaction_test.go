package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// secret is in everything that callers of the test send.
const secret = "hush-0f9e8d7c6b5a4321"

// logged is a log that is written while it is read.
type logged struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for a line with the words and returns it.
func (l *logged) await(t *testing.T, words string) map[string]any {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		for line := range strings.Lines(l.String()) {
			if !strings.Contains(line, words) {
				continue
			}
			var out map[string]any
			if err := json.Unmarshal([]byte(line), &out); err != nil {
				t.Fatalf("no JSON: %q, %v", line, err)
			}
			return out
		}
		select {
		case <-l.changed:
		case <-deadline:
			t.Fatalf("no line with %s in\n%s", words, l)
		}
	}
}

// awaitMore waits until the log has the words more often than before.
func (l *logged) awaitMore(t *testing.T, words string, before int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for strings.Count(l.String(), words) <= before {
		select {
		case <-l.changed:
		case <-deadline:
			t.Fatalf("no further line with %s in\n%s", words, l)
		}
	}
}

// serveLogged serves with the log in JSON, all of it.
func serveLogged(t *testing.T, c config.Config) (*runningSidecar, *logged) {
	t.Helper()
	c.LogLevel, c.LogFormat = "debug", "json"
	ctx, stop := context.WithCancel(context.Background())
	s, log := &runningSidecar{stop: stop, ended: make(chan error, 1)}, &logged{changed: make(chan struct{}, 1)}
	out, in := io.Pipe()
	go func() {
		err := Serve(ctx, c, in, log)
		in.CloseWithError(errors.Join(err, io.EOF))
		s.ended <- err
	}()
	t.Cleanup(func() {
		stop()
		<-s.ended
	})
	if err := json.NewDecoder(out).Decode(&s.ready); err != nil {
		t.Fatalf("ready line: %v, %s", err, log)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s, log
}

// TestNothingSecretIsTold drives a sidecar with a secret in every token, value and
// credential, in good calls and in refused ones: neither the log, down to its debug
// lines, nor the spans nor the metrics hold it.
func TestNothingSecretIsTold(t *testing.T) {
	t.Parallel()
	collects := newCollector(t)
	pushed := make(chan struct{}, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case pushed <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, secret)
	}))
	defer receiver.Close()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := settings(t)
	c.Packs, c.AllowTools, c.PushAllow = []string{write("seam.json", seamPack), packAt(t)}, []string{"*"}, []string{"127.0.0.1"}
	c.TokensFile = write("tokens", "tester runs:write,runs:read,events:external,packs:write,work,admin "+auth.Digested(secret)+"\n")
	c.OTLPEndpoint, c.TraceSample, c.Metrics, c.HTTP = collects.url, 1, "127.0.0.1:0", "127.0.0.1:0"
	s, log := serveLogged(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	known := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret, "a2a-version", "1.0", "traceparent", secret)
	runs := pawlv1.NewRunServiceClient(dial(t, s.ready.GRPC))

	if _, err := runs.GetRun(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer wrong-"+secret), &pawlv1.GetRunRequest{}); err == nil {
		t.Error("a wrong token is taken")
	}
	failed := failWithSecrets(known, t, runs)
	taskWithSecrets(known, t, s, receiver.URL)

	line := log.await(t, `"run ended"`)
	if line["run_id"] != failed || line["seq"] == nil || len(line["trace_id"].(string)) != 32 || line["status"] != "FAILED" {
		t.Errorf("the line about the run: %v", line)
	}
	if refused := log.await(t, `"EmitEvent"`); refused["reason"] != "UNKNOWN_EVENT" {
		t.Errorf("the line about the refused event: %v", refused)
	}
	select {
	case <-pushed:
	case <-ctx.Done():
		t.Fatal("nothing was pushed")
	}
	var spans strings.Builder
	for _, span := range collects.await(t, "run seam", 1) {
		spans.WriteString(span.String())
	}
	for _, name := range collects.names() {
		for _, span := range collects.named(name) {
			spans.WriteString(span.String())
		}
	}
	for where, text := range map[string]string{"log": log.String(), "spans": spans.String(), "metrics": scrape(t, s, secret)} {
		for line := range strings.Lines(text) {
			if strings.Contains(line, secret) || strings.Contains(line, "hush") {
				t.Errorf("the %s hold the secret: %s", where, line)
			}
		}
	}
}

// failWithSecrets drives a run to its failure and returns its id.
func failWithSecrets(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient) string {
	t.Helper()
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "seam", Execution: pawlv1.Execution_EXECUTION_CALLER, Input: text(secret), Labels: map[string]string{"who": secret}, RequestId: secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	run, turn := started.GetRun().GetRunId(), started.GetTurn()
	steps, err := runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Key: "k", Tool: "run_tests", PayloadJson: `{"password":"` + secret + `"}`}},
	})
	if err != nil || len(steps.GetOutcomes()) != 1 {
		t.Fatal(steps, err)
	}
	if _, err := runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
		RunId: run, Step: 1, Tool: "run_tests", Attempt: 1, TurnToken: turn.GetToken(),
		Answer: &pawlv1.ResolveStepRequest_Error{Error: &pawlv1.Fault{Code: "said " + secret, Message: secret}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{
		RunId: run, Event: secret, TurnToken: turn.GetToken(),
		Artifacts: []*pawlv1.ArtifactWrite{{Name: secret, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: secret}}}},
	}); err == nil {
		t.Error("an unknown event is taken")
	}
	if _, err := runs.FailTurn(ctx, &pawlv1.FailTurnRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Error: &pawlv1.Fault{Code: "boom " + secret, Message: secret},
	}); err != nil {
		t.Fatal(err)
	}
	return run
}

// taskWithSecrets gives an agent a task whose push notifications are refused, then
// cancels it.
func taskWithSecrets(ctx context.Context, t *testing.T, s *runningSidecar, receiver string) {
	t.Helper()
	agents := agentsOf(t, s)
	sent, err := agents.SendMessage(ctx, &a2apb.SendMessageRequest{
		Tenant:  "team/helper",
		Message: &a2apb.Message{MessageId: "m-1", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: secret}}}},
		Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{
			Url: receiver + "/" + secret + "?key=" + secret, Token: secret, Authentication: &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: secret},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agents.CancelTask(ctx, &a2apb.CancelTaskRequest{Tenant: "team/helper", Id: sent.GetTask().GetId()}); err != nil {
		t.Fatal(err)
	}
}
