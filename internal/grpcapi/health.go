package grpcapi

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthState is grpc.health.v1: SERVING only while the store takes commits.
type healthState struct{ server *health.Server }

// newHealth registers the service; everything is NOT_SERVING until serve.
func newHealth(to grpc.ServiceRegistrar) *healthState {
	h := &healthState{server: health.NewServer()}
	for _, service := range healthServices {
		h.server.SetServingStatus(service, healthpb.HealthCheckResponse_NOT_SERVING)
	}
	healthpb.RegisterHealthServer(to, h.server)
	return h
}

// serve reports SERVING until the store fails or the server drains.
func (h *healthState) serve(failed, draining <-chan struct{}) {
	select {
	case <-failed:
		return
	default:
	}
	for _, service := range healthServices {
		h.server.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	go func() {
		select {
		case <-failed:
			h.stop()
		case <-draining:
		}
	}()
}

// stop reports NOT_SERVING for good.
func (h *healthState) stop() { h.server.Shutdown() }
