package grpcapi

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthState implements grpc.health.v1. It reports SERVING only while the store can commit. On a
// server with a router, it reports SERVING only while at least one store is known that can commit.
type healthState struct{ server *health.Server }

// newHealth registers the health service. The service reports NOT_SERVING until serve is called.
func newHealth(to grpc.ServiceRegistrar) *healthState {
	h := &healthState{server: health.NewServer()}
	h.set(healthpb.HealthCheckResponse_NOT_SERVING)
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
	h.set(healthpb.HealthCheckResponse_SERVING)
	go func() {
		select {
		case <-failed:
			h.stop()
		case <-draining:
		}
	}()
}

func (h *healthState) set(status healthpb.HealthCheckResponse_ServingStatus) {
	for _, service := range healthServices {
		h.server.SetServingStatus(service, status)
	}
}

// Ready sets whether a server with a router is ready, because the server itself cannot know this. The
// server reports NOT_SERVING until Ready is first called with true. While the server drains, it reports
// NOT_SERVING in any case.
func (s *Server) Ready(ready bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.set(status)
}

// stop reports NOT_SERVING from now on.
func (h *healthState) stop() { h.server.Shutdown() }
