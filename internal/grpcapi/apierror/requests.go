package apierror

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Services are the descriptors of the services of pawl.v1.
var Services = []protoreflect.ServiceDescriptor{
	pawlv1.File_pawl_v1_pack_proto.Services().ByName("PackService"),
	pawlv1.File_pawl_v1_run_proto.Services().ByName("RunService"),
	pawlv1.File_pawl_v1_worker_proto.Services().ByName("WorkerService"),
	pawlv1.File_pawl_v1_delivery_proto.Services().ByName("DeliveryService"),
	pawlv1.File_pawl_v1_control_proto.Services().ByName("ControlService"),
	pawlv1.File_pawl_v1_store_proto.Services().ByName("StoreService"),
}

// Requests returns the message types of all requests.
func Requests() []protoreflect.MessageDescriptor {
	var types []protoreflect.MessageDescriptor
	for _, service := range Services {
		for i := range service.Methods().Len() {
			types = append(types, service.Methods().Get(i).Input())
		}
	}
	return types
}
