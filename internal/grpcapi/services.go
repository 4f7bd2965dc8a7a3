package grpcapi

import (
	"buf.build/go/protovalidate"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/grpcapi/depot"
	"github.com/pawl-dev/pawl/internal/grpcapi/envelope"
	"github.com/pawl-dev/pawl/internal/grpcapi/quota"
	"github.com/pawl-dev/pawl/internal/grpcapi/redact"
	"github.com/pawl-dev/pawl/internal/grpcapi/sent"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// registerServices adds what pawl.v1 offers.
func (s *Server) registerServices(validator protovalidate.Validator) {
	envelope.Register(s.grpc, &pawlv1.PackService_ServiceDesc, &packService{packs: s.cfg.House.Registry})
	s.runs = &runService{
		engine: s.cfg.House.Engine, views: s.cfg.House.Views, blobs: s.cfg.House.Blobs, travel: s.cfg.House.Travel, retain: s.cfg.House.Retain, admission: s.cfg.House.Admission, watches: s.cfg.House.Watches, work: s.cfg.House.Work, auth: s.auth, draining: s.draining,
		streams: quota.NewStreams(s.cfg.MaxStreams, s.cfg.House.Quotas), settings: convert.NewSettingsCache(), sent: sent.NewRecords(), tally: s.edge.tally, hides: redact.Gate{Views: s.cfg.House.Views},
	}
	s.runs.commands = newCommander(s.runs, s.edge, s.limit, validator)
	envelope.Register(s.grpc, &pawlv1.RunService_ServiceDesc, s.runs)
	envelope.Register(s.grpc, &pawlv1.ControlService_ServiceDesc, &controlService{runs: s.runs, schedules: s.cfg.House.Schedules})
	envelope.Register(s.grpc, &pawlv1.DeliveryService_ServiceDesc, &deliveryService{subscriptions: s.cfg.House.Subscriptions, sends: s.cfg.Deliveries})
	envelope.Register(s.grpc, &pawlv1.StoreService_ServiceDesc, depot.New(s.cfg.Store, s.runs.guarded))
	envelope.Register(s.grpc, &pawlv1.WorkerService_ServiceDesc, &workerService{runs: s.runs, edge: s.edge, maxMessage: s.cfg.MaxMessageBytes})
}

// healthServices are the names that grpc.health.v1 answers for; "" is the whole.
var healthServices = []string{
	"", pawlv1.PackService_ServiceDesc.ServiceName, pawlv1.RunService_ServiceDesc.ServiceName,
	pawlv1.WorkerService_ServiceDesc.ServiceName, pawlv1.DeliveryService_ServiceDesc.ServiceName, pawlv1.StoreService_ServiceDesc.ServiceName,
	pawlv1.ControlService_ServiceDesc.ServiceName,
}

// operations is [runtime.Operations] by name. What is not in it is closed to all.
func operations() map[string]runtime.Operation {
	byName := make(map[string]runtime.Operation, len(runtime.Operations()))
	for _, op := range runtime.Operations() {
		byName[op.Name] = op
	}
	return byName
}
