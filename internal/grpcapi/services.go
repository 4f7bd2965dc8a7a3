package grpcapi

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/grpcapi/redact"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
)

// endGrace is how long streams may take to end by themselves when Services end. handoverDrain is how long workers may
// still send answers then. Both are shorter than the same times at the end of a process, because the next owner waits
// for the store.
const (
	endGrace      = 250 * time.Millisecond
	handoverDrain = 150 * time.Millisecond
)

// ServiceConfig configures [Services].
type ServiceConfig struct {
	// Runtime is required.
	Runtime *services.Runtime
	// Deliveries and Store are as in [Config].
	Deliveries Deliveries
	Store      StoreBackend
	// Plugin creates the service of another package. It may be nil. The server that receives a call has
	// already authenticated the caller.
	Plugin func(*Services) (Plugin, error)
}

// Services execute calls for the runs of one store. Callers must already be authenticated
// ([auth.WithCaller]), and the constraints must be checked. Safe for concurrent use.
type Services struct {
	board   *serviceTable
	s       *Server
	runs    *runService
	runtime *services.Runtime
	plugin  Plugin
	// ends is a context. It is done when the services end.
	ends context.Context //nolint:containedctx // what ends is the services
	end  context.CancelCauseFunc
}

// Services returns the services of a partition that was opened after the server was created. The
// server's router calls them.
func (s *Server) Services(of ServiceConfig) (*Services, error) {
	o := s.servicesOf(of)
	o.board.Implementation(&pawlv1.WorkerService_ServiceDesc).(*workerService).drainFor = handoverDrain
	if of.Plugin == nil {
		return o, nil
	}
	var err error
	if o.plugin, err = of.Plugin(o); err != nil {
		return nil, err
	}
	o.board.Add(o.plugin.Desc, o.plugin.Impl)
	return o, nil
}

// Own returns the services of Config.Runtime.
func (s *Server) Own() *Services { return s.ownServices }

func (s *Server) newServices(of ServiceConfig) *Services {
	o := &Services{s: s, runtime: of.Runtime, board: newServiceTable()}
	o.ends, o.end = context.WithCancelCause(context.Background())
	return o
}

// servicesOf returns the services of pawl.v1 for a runtime.
func (s *Server) servicesOf(of ServiceConfig) *Services {
	o, h := s.newServices(of), of.Runtime
	runs := &runService{
		engine: h.Engine, views: h.Views, blobs: h.Blobs, timeTravel: h.TimeTravel, retain: h.Retain, admission: h.Admission, waits: h.Waits, watches: h.Watches, work: h.Work, auth: s.auth, draining: o.ends.Done(),
		streams: s.streams, settings: convert.NewSettingsCache(), sent: codec.NewRecords(), metrics: s.edge.metrics, redactor: redact.Gate{Views: h.Views},
	}
	o.runs = runs
	o.board.Add(&pawlv1.PackService_ServiceDesc, &packService{packs: h.Registry})
	o.board.Add(&pawlv1.RunService_ServiceDesc, runs)
	o.board.Add(&pawlv1.ControlService_ServiceDesc, &controlService{server: s, runs: runs, schedules: h.Schedules})
	o.board.Add(&pawlv1.DeliveryService_ServiceDesc, &deliveryService{server: s, subscriptions: h.Subscriptions, sends: of.Deliveries})
	o.board.Add(&pawlv1.StoreService_ServiceDesc, newStoreService(of.Store, h.Namespaces, runs.guardedContext))
	o.board.Add(&pawlv1.WorkerService_ServiceDesc, &workerService{runs: runs, edge: s.edge, maxMessage: s.cfg.MaxMessageBytes, drainFor: drainFor})
	return o
}

// registerServices registers the services of pawl.v1. These are the server's own services or, on a
// server with a router, only the names of the services.
func (s *Server) registerServices() {
	if s.cfg.Router != nil {
		s.ownServices = s.routedServices()
	} else {
		s.ownServices = s.servicesOf(ServiceConfig{Runtime: s.cfg.Runtime, Deliveries: s.cfg.Deliveries, Store: s.cfg.Store})
	}
	for _, desc := range s.ownServices.board.Descs() {
		codec.Register(s.grpc, desc, s.ownServices.board.Implementation(desc))
	}
}

// Call makes a unary call. method is the full gRPC name.
func (o *Services) Call(ctx context.Context, method string, req any) (any, error) {
	return o.board.Call(ctx, method, req)
}

// Stream makes a streaming call. After End the stream ends soon, even if its reader does not read. The
// error is DRAINING, so that the caller can continue at another node. If the reader is blocked, it is
// OWNER_LOST.
func (o *Services) Stream(method string, stream grpc.ServerStream) error {
	return endStream(o.ends, endGrace, stalled, stream, func(stream grpc.ServerStream) error { return o.board.Stream(method, stream) })
}

// ServeHTTP serves the requests for the plugin. After End they end soon.
func (o *Services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if o.plugin.HTTP == nil {
		http.NotFound(w, r)
		return
	}
	endHTTP(o.ends, endGrace, w, r, o.plugin.HTTP)
}

// End ends streams, watches and waits with the error DRAINING. Clients then continue at the next owner of the store.
func (o *Services) End() {
	o.end(draining())
	if o.runtime != nil {
		o.runtime.Admission.Drain()
	}
}

// healthServices are the names for which grpc.health.v1 reports a status. "" means the whole server.
var healthServices = []string{
	"", pawlv1.PackService_ServiceDesc.ServiceName, pawlv1.RunService_ServiceDesc.ServiceName,
	pawlv1.WorkerService_ServiceDesc.ServiceName, pawlv1.DeliveryService_ServiceDesc.ServiceName, pawlv1.StoreService_ServiceDesc.ServiceName,
	pawlv1.ControlService_ServiceDesc.ServiceName,
}

// operations returns [runtime.Operations] by name. If a method is not in it, the method is refused to
// every caller.
func operations() map[string]runtime.Operation {
	byName := make(map[string]runtime.Operation, len(runtime.Operations()))
	for _, op := range runtime.Operations() {
		byName[op.Name] = op
	}
	return byName
}
