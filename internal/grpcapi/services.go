package grpcapi

import (
	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// registerServices adds what pawl.v1 offers.
func (s *Server) registerServices() {
	register(s.grpc, &pawlv1.PackService_ServiceDesc, &packService{engine: s.cfg.Engine})
	s.runs = &runService{
		engine: s.cfg.Engine, auth: s.auth, draining: s.draining,
		streams: &openStreams{limit: int64(s.cfg.MaxStreams)}, settings: newSettingsCache(),
	}
	register(s.grpc, &pawlv1.RunService_ServiceDesc, s.runs)
	register(s.grpc, &pawlv1.DeliveryService_ServiceDesc, &deliveryService{engine: s.cfg.Engine, sends: s.cfg.Deliveries})
	register(s.grpc, &pawlv1.WorkerService_ServiceDesc, &workerService{runs: s.runs, edge: s.edge, maxMessage: s.cfg.MaxMessageBytes})
}

// servedServices are the descriptors of registerServices.
var servedServices = []protoreflect.ServiceDescriptor{
	pawlv1.File_pawl_v1_pack_proto.Services().ByName("PackService"),
	pawlv1.File_pawl_v1_run_proto.Services().ByName("RunService"),
	pawlv1.File_pawl_v1_worker_proto.Services().ByName("WorkerService"),
	pawlv1.File_pawl_v1_delivery_proto.Services().ByName("DeliveryService"),
}

// healthServices are the names that grpc.health.v1 answers for; "" is the whole.
var healthServices = []string{
	"", pawlv1.PackService_ServiceDesc.ServiceName, pawlv1.RunService_ServiceDesc.ServiceName,
	pawlv1.WorkerService_ServiceDesc.ServiceName, pawlv1.DeliveryService_ServiceDesc.ServiceName,
}

// publicMethods take no token: a probe has none.
var publicMethods = map[string]bool{
	healthpb.Health_Check_FullMethodName: true,
	healthpb.Health_List_FullMethodName:  true,
	healthpb.Health_Watch_FullMethodName: true,
}

// requiredScopes says for each method which scopes admit to it, one of them
// being enough. Whether a scope is enough for this run, state and turn is the
// engine's to decide. A method that is not here is closed to all.
func requiredScopes() map[string]runtime.Scopes {
	const (
		packs  = runtime.ScopePacksWrite
		write  = runtime.ScopeRunsWrite
		read   = runtime.ScopeRunsRead
		events = runtime.ScopeEventsExternal
		admin  = runtime.ScopeAdmin
	)
	required := map[string]runtime.Scopes{
		pawlv1.PackService_ValidatePack_FullMethodName: packs | read,
		pawlv1.PackService_RegisterPack_FullMethodName: packs,
		pawlv1.PackService_GetPack_FullMethodName:      read,
		pawlv1.PackService_ListPacks_FullMethodName:    read,
		pawlv1.PackService_GetPackGraph_FullMethodName: read,

		pawlv1.RunService_StartRun_FullMethodName:          write,
		pawlv1.RunService_ForkRun_FullMethodName:           write,
		pawlv1.RunService_DiffRuns_FullMethodName:          read | write,
		pawlv1.RunService_VerifyRun_FullMethodName:         read | write,
		pawlv1.RunService_ExportRun_FullMethodName:         read | write,
		pawlv1.RunService_ImportRun_FullMethodName:         packs,
		pawlv1.RunService_EmitEvent_FullMethodName:         write | events,
		pawlv1.RunService_SendInput_FullMethodName:         write,
		pawlv1.RunService_GetTurn_FullMethodName:           write | events,
		pawlv1.RunService_SetArtifacts_FullMethodName:      write | events,
		pawlv1.RunService_CompleteTurn_FullMethodName:      write | events,
		pawlv1.RunService_FailTurn_FullMethodName:          write | events,
		pawlv1.RunService_SuspendTurn_FullMethodName:       write,
		pawlv1.RunService_WriteOutput_FullMethodName:       write,
		pawlv1.RunService_RequestStep_FullMethodName:       write,
		pawlv1.RunService_ResolveStep_FullMethodName:       write | admin,
		pawlv1.RunService_StreamTransitions_FullMethodName: read,
		pawlv1.RunService_ListTransitions_FullMethodName:   read,
		pawlv1.RunService_GetRun_FullMethodName:            read,
		pawlv1.RunService_ListRuns_FullMethodName:          read,
		pawlv1.RunService_WaitRun_FullMethodName:           read,
		pawlv1.RunService_ShowTurn_FullMethodName:          read,
		pawlv1.RunService_CountRuns_FullMethodName:         read,
		pawlv1.RunService_GetCaller_FullMethodName:         0,
		pawlv1.RunService_PauseRun_FullMethodName:          write,
		pawlv1.RunService_ResumeRun_FullMethodName:         write,
		pawlv1.RunService_CancelRun_FullMethodName:         write,
		pawlv1.RunService_PutBlob_FullMethodName:           write | runtime.ScopeWork,
		pawlv1.RunService_GetBlob_FullMethodName:           read | runtime.ScopeWork,

		pawlv1.DeliveryService_ListConsumers_FullMethodName:     read,
		pawlv1.DeliveryService_AckConsumer_FullMethodName:       read,
		pawlv1.DeliveryService_DeleteConsumer_FullMethodName:    read,
		pawlv1.DeliveryService_PutWebhook_FullMethodName:        read,
		pawlv1.DeliveryService_GetWebhook_FullMethodName:        read,
		pawlv1.DeliveryService_ListWebhooks_FullMethodName:      read,
		pawlv1.DeliveryService_DeleteWebhook_FullMethodName:     read,
		pawlv1.DeliveryService_ListDeliveries_FullMethodName:    read | write,
		pawlv1.DeliveryService_ListDeadLetters_FullMethodName:   read | write,
		pawlv1.DeliveryService_ResendDeadLetter_FullMethodName:  read | write,
		pawlv1.DeliveryService_DiscardDeadLetter_FullMethodName: read | write,

		pawlv1.WorkerService_Work_FullMethodName:        runtime.ScopeWork,
		pawlv1.WorkerService_ListWorkers_FullMethodName: read,
	}
	for _, method := range []string{
		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName,
		reflectionalphapb.ServerReflection_ServerReflectionInfo_FullMethodName,
	} {
		required[method] = packs | write | read | events | runtime.ScopeWork
	}
	for _, method := range channelzpb.Channelz_ServiceDesc.Methods {
		required["/"+channelzpb.Channelz_ServiceDesc.ServiceName+"/"+method.MethodName] = admin
	}
	required[metricsMethod] = read
	return required
}

// requestTypes are the messages whose constraints are compiled before the first
// request.
func requestTypes() []protoreflect.MessageDescriptor {
	var types []protoreflect.MessageDescriptor
	for _, service := range servedServices {
		for i := range service.Methods().Len() {
			types = append(types, service.Methods().Get(i).Input())
		}
	}
	return types
}
