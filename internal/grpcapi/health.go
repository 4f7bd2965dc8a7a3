package grpcapi

import (
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthState implements grpc.health.v1. It reports SERVING only while the store can commit. On a
// server with a router, it reports SERVING only while at least one store is known that can commit.
type healthState struct {
	server *health.Server

	mu      sync.Mutex
	status  healthpb.HealthCheckResponse_ServingStatus
	since   time.Time
	stopped bool
}

// newHealth registers the health service. The service reports NOT_SERVING until serve or [Server.Ready] is called.
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
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	if status != h.status {
		h.status, h.since = status, time.Now()
	}
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

// Readiness reports whether the health service reports SERVING for the whole server, and the time of the
// last change.
func (s *Server) Readiness() (ready bool, since time.Time) { return s.health.ready() }

// stop reports NOT_SERVING from now on.
func (h *healthState) stop() {
	h.set(healthpb.HealthCheckResponse_NOT_SERVING)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.server.Shutdown()
}

// ready reports whether the status is SERVING, and the time of its last change.
func (h *healthState) ready() (bool, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status == healthpb.HealthCheckResponse_SERVING, h.since
}
