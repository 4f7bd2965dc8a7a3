package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// collector takes spans by OTLP in this process.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	url      string
	mu       sync.Mutex
	spans    []*tracepb.Span
	received chan struct{}
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{url: "http://" + ln.Addr().String(), received: make(chan struct{}, 1)}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return c
}

func (c *collector) Export(_ context.Context, req *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	select {
	case c.received <- struct{}{}:
	default:
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// await waits until so many spans with the name have come.
func (c *collector) await(t *testing.T, name string, n int) []*tracepb.Span {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		found := c.named(name)
		if len(found) >= n {
			return found
		}
		select {
		case <-c.received:
		case <-deadline:
			t.Fatalf("%d spans %q, want %d; there are %v", len(found), name, n, c.names())
		}
	}
}

func (c *collector) named(name string) (found []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

func (c *collector) names() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		names = append(names, s.GetName())
	}
	return names
}

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	callers      = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// TestTrace follows one trace from a caller through a run, its worker and a
// delegation into the agent's run.
func TestTrace(t *testing.T) {
	t.Parallel()
	collects := newCollector(t)
	c := settings(t)
	c.Packs, c.AllowTools = []string{packAt(t)}, []string{"*"}
	c.OTLPEndpoint, c.TraceSample, c.Metrics = collects.url, 0, "127.0.0.1:0"
	s := serveToEnd(t, c)
	told := make(chan string, 16)
	runs := runWorker(t, s, "team", map[string]pawl.TurnFunc{
		"lead": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
			told <- turn.Assignment.GetTraceparent()
			if turn.Assignment.GetTurn().GetTerminal() {
				return pawl.Completion{}, nil
			}
			if _, err := turn.Step(ctx, "", "helper", `{"message": "easy"}`); err != nil {
				return pawl.Completion{}, err
			}
			return pawl.Completion{Event: "Done", Usage: &pawlv1.Usage{InputTokens: 7, OutputTokens: 3}}, nil
		},
		"helper": helper,
	})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", callers)
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "team", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	root := collects.await(t, "run team", 1)[0]
	wantSpan(t, root, callersTrace, callersSpan)
	visit := collects.await(t, "visit work", 1)[0]
	wantSpan(t, visit, callersTrace, hex.EncodeToString(root.GetSpanId()))
	turn := collects.await(t, "chat work", 1)[0]
	wantSpan(t, turn, callersTrace, hex.EncodeToString(visit.GetSpanId()))
	tool := collects.await(t, "execute_tool helper", 1)[0]
	wantSpan(t, tool, callersTrace, hex.EncodeToString(turn.GetSpanId()))
	var client, child *tracepb.Span
	for _, span := range collects.await(t, "invoke_agent helper", 2) {
		if span.GetKind() == tracepb.Span_SPAN_KIND_CLIENT {
			client = span
		} else {
			child = span
		}
	}
	wantSpan(t, client, callersTrace, hex.EncodeToString(tool.GetSpanId()))
	wantSpan(t, child, callersTrace, hex.EncodeToString(client.GetSpanId()))
	if got, want := <-told, fmt.Sprintf("00-%s-%x-01", callersTrace, turn.GetSpanId()); got != want {
		t.Errorf("the worker was told %s, the turn is %s", got, want)
	}
	if attributeOf(turn, "gen_ai.usage.input_tokens") != "7" || attributeOf(tool, "gen_ai.tool.name") != "helper" || attributeOf(root, "pawl.run.id") != started.GetRun().GetRunId() {
		t.Errorf("attributes: %v, %v, %v", turn, tool, root)
	}
	page := scrape(t, s, "")
	// What the child used counts once, where it was used, although it counts against the parent too.
	for _, line := range []string{
		`pawl_runs_ended_total{reason="completed",status="COMPLETED"} 2`, `pawl_usage_tokens_total{model="",type="input"} 17`,
		`pawl_steps_total{attempt="1",outcome="ok"} 1`, `pawl_runs_started_total 2`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
}

func wantSpan(t *testing.T, s *tracepb.Span, trace, parent string) {
	t.Helper()
	if got := hex.EncodeToString(s.GetTraceId()); got != trace || hex.EncodeToString(s.GetParentSpanId()) != parent || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
		t.Errorf("span %q is in trace %s below %x, want %s below %s: %v", s.GetName(), got, s.GetParentSpanId(), trace, parent, s)
	}
}

func attributeOf(s *tracepb.Span, key string) string {
	for _, kv := range s.GetAttributes() {
		if kv.GetKey() == key {
			return strings.Trim(strings.SplitN(kv.GetValue().String(), ":", 2)[1], `"`)
		}
	}
	return ""
}

// scrape reads the metrics as Prometheus does.
// scrape reads the metrics with a bearer token, "" = without.
func scrape(t *testing.T, s *runningSidecar, token string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ready.Metrics+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s, %v", resp.Status, err)
	}
	return string(body)
}
