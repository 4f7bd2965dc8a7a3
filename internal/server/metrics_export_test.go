package server

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// metricSink takes metrics by OTLP in this process.
type metricSink struct {
	collectorpb.UnimplementedMetricsServiceServer
	mu    sync.Mutex
	names map[string]bool
}

func (s *metricSink) Export(_ context.Context, req *collectorpb.ExportMetricsServiceRequest) (*collectorpb.ExportMetricsServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range req.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				s.names[m.GetName()] = true
			}
		}
	}
	return &collectorpb.ExportMetricsServiceResponse{}, nil
}

// TestMetricsByOTLP: what Prometheus would scrape reaches a collector, at the
// latest when the sidecar ends.
func TestMetricsByOTLP(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sink := &metricSink{names: make(map[string]bool)}
	server := grpc.NewServer()
	collectorpb.RegisterMetricsServiceServer(server, sink)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	c := settings(t)
	c.OTLPEndpoint = "http://" + ln.Addr().String()
	s := serve(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	runs := runWorker(t, s, "w", nil)
	if _, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for _, name := range []string{"pawl_runs_started_total", "pawl_transitions_total", "pawl_commit_duration_seconds"} {
		if !sink.names[name] {
			t.Errorf("%s did not come; there are %v", name, sink.names)
		}
	}
}
