package grpcapi

import (
	"net/http"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/gateway"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// metricsMethod is the name of the metrics page in the table of operations.
const metricsMethod = "GET /metrics"

// newMetrics returns the listener of the metrics. It authenticates readers in the same way as callers.
// It also checks the host name of requests. Otherwise a web page under a name that resolves to this
// host could read the metrics in a browser.
func newMetrics(s *Server) *httpListener {
	mux := http.NewServeMux()
	mux.Handle(metricsMethod, s.cfg.MetricsPage)
	w := newHTTPListener(s, "metrics", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !gateway.HostNamed(r.Host, s.cfg.HTTPHosts) && !gateway.IsAddress(r.Host) {
			refusal := &machine.Error{
				Code: machine.CodePermissionDenied, Reason: "HOST_NOT_ALLOWED", Field: "Host",
				Allowed: append([]string{"loopback names", "addresses"}, s.cfg.HTTPHosts...),
				Message: "the metrics are not known by that name; configure http_host",
			}
			s.edge.metrics.Refused(r.Context(), metricsMethod, apierror.Refused(refusal))
			gateway.WriteRefusal(w, refusal)
			return
		}
		if _, err := s.Admit(r, metricsMethod); err != nil {
			st, _ := apierror.Status(err)
			gateway.WriteStatus(w, st, gateway.HTTPStatus(st))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return &w
}
