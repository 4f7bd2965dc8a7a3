package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// tracedRuns is how many runs move while they are observed.
const tracedRuns = 64

// telemetryPart compares throughput with metrics and traces of a tenth of the runs,
// sent to a collector, with throughput without.
func (s *suite) telemetryPart(ctx context.Context) (Samples, error) {
	sink, err := openSink()
	if err != nil {
		return nil, err
	}
	defer sink.server.Stop()
	raw, err := interleave(s.sizes.Rounds, []arm{
		{"no telemetry", func(int) (map[string]float64, error) { return s.observedArm(ctx, "off") }},
		{"telemetry", func(int) (map[string]float64, error) {
			return s.observedArm(ctx, "on", "--otlp-endpoint", sink.url, "--trace-sample", "0.1", "--metrics", "127.0.0.1:0")
		}},
	}, s.logRound)
	if err == nil && !sink.received.Load() {
		err = errors.New("no span arrived")
	}
	return Samples{"telemetry_ratio": raw.ratio("on", "off")}, err
}

func (s *suite) observedArm(ctx context.Context, name string, args ...string) (map[string]float64, error) {
	got, err := s.measureLoad(ctx, "emit", tracedRuns, args...)
	return map[string]float64{name: got.PerSec}, err
}

// traceSink is a collector that keeps nothing.
type traceSink struct {
	collectorpb.UnimplementedTraceServiceServer
	url      string
	server   *grpc.Server
	received atomic.Bool
}

func openSink() (*traceSink, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := &traceSink{url: "http://" + ln.Addr().String(), server: grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))}
	collectorpb.RegisterTraceServiceServer(s.server, s)
	go func() { _ = s.server.Serve(ln) }()
	return s, nil
}

// Export implements the collector's one method.
func (s *traceSink) Export(context.Context, *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	s.received.Store(true)
	return &collectorpb.ExportTraceServiceResponse{}, nil
}
