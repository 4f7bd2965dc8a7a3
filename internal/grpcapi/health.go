package grpcapi

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthState is grpc.health.v1. It is SERVING only while the store can commit, or, on a server with a
// router, while a store is known that can.
type healthState struct{ server *health.Server }

// newHealth registers the health service. It reports NOT_SERVING until serve.
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

// Ready sets whether a server with a router is ready, because the server cannot know it itself. It reports
// NOT_SERVING until the first call with true. While the server drains it stays NOT_SERVING.
func (s *Server) Ready(ready bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.set(status)
}

// stop reports NOT_SERVING from now on.
func (h *healthState) stop() { h.server.Shutdown() }
