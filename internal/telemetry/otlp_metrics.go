package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/pawl-dev/pawl/internal/build"
)

// metricInterval is how often metrics are sent.
const metricInterval = 30 * time.Second

// MetricExport sends the metrics to an OTLP collector. They are the same metrics that Prometheus reads.
type MetricExport struct{ provider *metric.MeterProvider }

// ExportMetrics sends the metrics to a collector that takes OTLP over gRPC at the given URL, every 30 s and
// once more at the end. The first of several failures in a row is logged.
func ExportMetrics(ctx context.Context, endpoint string, m *Metrics, log *slog.Logger) (*MetricExport, error) {
	exporter, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("telemetry: metrics: %w", err)
	}
	reader := metric.NewPeriodicReader(&logged{Exporter: exporter, log: log},
		metric.WithInterval(metricInterval), metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(m.registry))))
	return &MetricExport{provider: metric.NewMeterProvider(
		metric.WithReader(reader),
		metric.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "pawl"), attribute.String("service.version", build.Version()))),
	)}, nil
}

// Stop sends the current metrics and ends the export.
func (e *MetricExport) Stop(ctx context.Context) error { return e.provider.Shutdown(ctx) }

// logged logs failures of an exporter. It logs only the first of consecutive failures. It is used instead of OpenTelemetry's global error
// handler.
type logged struct {
	metric.Exporter
	log         *slog.Logger
	unreachable bool
}

// Export is called by one reader, one call at a time. It returns nil even after a failure, because
// OpenTelemetry would pass the error to its global handler.
func (l *logged) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	err := l.Exporter.Export(ctx, rm)
	if err != nil && !l.unreachable {
		l.log.WarnContext(ctx, "metrics export failed", "error", err)
	}
	l.unreachable = err != nil
	return nil
}
