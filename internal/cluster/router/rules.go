package router

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/policy"
)

// Rule says how a method is routed and when a call that may have been begun is made again.
type Rule uint8

// The rules. A call that was not begun is made again under all of them.
const (
	// ReadOnly: the call changes no state and may be retried.
	ReadOnly Rule = iota + 1
	// Idempotent: the same request twice does what it does once, and is made again.
	Idempotent
	// IdempotentByKey: it is made again if the request has one of the ids by which a repeat is known.
	IdempotentByKey
	// NoRetry: it is never made again.
	NoRetry
	// RetryUntilFirst: a stream that reads. It is opened again until it has sent its first
	// message.
	RetryUntilFirst
	// ResumeStream: a stream that continues after the last sent message.
	ResumeStream
	// RetryRemaining: a retry continues for the rest of the call's time.
	RetryRemaining
	// Bidi: both sides send; it ends with its node.
	Bidi
	// FanOut: it reads all partitions, and is made at each.
	FanOut
	// NodeInfo: the router knows the answer, which is about this node.
	NodeInfo
)

// Services are the routed services.
var Services = []*grpc.ServiceDesc{
	&pawlv1.PackService_ServiceDesc, &pawlv1.RunService_ServiceDesc, &pawlv1.ControlService_ServiceDesc,
	&pawlv1.DeliveryService_ServiceDesc, &pawlv1.StoreService_ServiceDesc, &pawlv1.WorkerService_ServiceDesc,
	&a2apb.A2AService_ServiceDesc,
}

// rules has the methods that change state, stream, or are about all partitions; all others
// read.
var rules = map[string]Rule{
	pawlv1.PackService_RegisterPack_FullMethodName: Idempotent,

	pawlv1.RunService_StartRun_FullMethodName:          IdempotentByKey,
	pawlv1.RunService_ForkRun_FullMethodName:           IdempotentByKey,
	pawlv1.RunService_EmitEvent_FullMethodName:         IdempotentByKey,
	pawlv1.RunService_SendInput_FullMethodName:         IdempotentByKey,
	pawlv1.RunService_SetArtifacts_FullMethodName:      IdempotentByKey,
	pawlv1.RunService_CompleteTurn_FullMethodName:      IdempotentByKey,
	pawlv1.RunService_FailTurn_FullMethodName:          IdempotentByKey,
	pawlv1.RunService_WriteOutput_FullMethodName:       IdempotentByKey,
	pawlv1.RunService_SuspendTurn_FullMethodName:       IdempotentByKey,
	pawlv1.RunService_RequestStep_FullMethodName:       IdempotentByKey,
	pawlv1.RunService_ResolveStep_FullMethodName:       Idempotent, // a duplicate by the step
	pawlv1.RunService_RequestModel_FullMethodName:      NoRetry,
	pawlv1.RunService_AnswerModel_FullMethodName:       Idempotent, // a duplicate by the attempt
	pawlv1.RunService_UpdateModelCall_FullMethodName:   Idempotent,
	pawlv1.RunService_PauseRun_FullMethodName:          IdempotentByKey,
	pawlv1.RunService_ResumeRun_FullMethodName:         IdempotentByKey,
	pawlv1.RunService_CancelRun_FullMethodName:         IdempotentByKey,
	pawlv1.RunService_DeleteRun_FullMethodName:         Idempotent,
	pawlv1.RunService_EraseRun_FullMethodName:          Idempotent,
	pawlv1.RunService_WaitRun_FullMethodName:           RetryRemaining,
	pawlv1.RunService_StreamTransitions_FullMethodName: ResumeStream,
	pawlv1.RunService_ExportRun_FullMethodName:         RetryUntilFirst,
	pawlv1.RunService_GetBlob_FullMethodName:           RetryUntilFirst,
	pawlv1.RunService_ImportRun_FullMethodName:         Bidi,
	pawlv1.RunService_PutBlob_FullMethodName:           Bidi,
	pawlv1.RunService_GetCaller_FullMethodName:         NodeInfo,

	pawlv1.ControlService_DecideStep_FullMethodName:  IdempotentByKey,
	pawlv1.ControlService_SteerRun_FullMethodName:    IdempotentByKey,
	pawlv1.ControlService_StopRun_FullMethodName:     IdempotentByKey,
	pawlv1.ControlService_RaiseBudget_FullMethodName: IdempotentByKey,

	// A repeat of the other methods of DeliveryService would report a removed webhook as
	// missing, or overwrite one that another caller has changed or deleted in between. That is
	// no answer to a call that was made once.
	pawlv1.DeliveryService_AckConsumer_FullMethodName:       Idempotent,
	pawlv1.DeliveryService_PutWebhook_FullMethodName:        NoRetry,
	pawlv1.DeliveryService_DeleteConsumer_FullMethodName:    NoRetry,
	pawlv1.DeliveryService_DeleteWebhook_FullMethodName:     NoRetry,
	pawlv1.DeliveryService_ResendDeadLetter_FullMethodName:  NoRetry,
	pawlv1.DeliveryService_DiscardDeadLetter_FullMethodName: NoRetry,

	// A backup that has begun has left the store: the audit has a line of it.
	pawlv1.StoreService_Backup_FullMethodName:         RetryUntilFirst,
	pawlv1.StoreService_CheckStore_FullMethodName:     FanOut,
	pawlv1.StoreService_GetStoreStats_FullMethodName:  FanOut,
	pawlv1.StoreService_ListPartitions_FullMethodName: NodeInfo,
	pawlv1.ControlService_ListLimits_FullMethodName:   FanOut,

	pawlv1.WorkerService_Work_FullMethodName: Bidi,

	a2apb.A2AService_SendMessage_FullMethodName:                      IdempotentByKey, // by the header
	a2apb.A2AService_SendStreamingMessage_FullMethodName:             NoRetry,
	a2apb.A2AService_SubscribeToTask_FullMethodName:                  RetryUntilFirst,
	a2apb.A2AService_CancelTask_FullMethodName:                       NoRetry,
	a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName: NoRetry,
	a2apb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName: NoRetry,
}

// repeated are reasons by which a repeat is known to have been done already.
var repeated = map[string]string{
	// Another acknowledgement of the consumer has come in between.
	pawlv1.DeliveryService_AckConsumer_FullMethodName: "CURSOR_BEHIND",
}

// Method has the routing of one method.
type Method struct {
	Rule Rule
	// Changes: what it does stays.
	Changes bool
	in, out protoreflect.MessageType
	// done is the reason that a repeated call gets where the call was made; empty: it gets the
	// answer.
	done string
	// ids are the fields of the request by which a repeat is known.
	ids []protoreflect.FieldDescriptor
	// asks, answers: its caller, its server streams. agents: it is A2A's.
	asks, answers, agents bool
}

// NewRequest makes an empty request.
func (m *Method) NewRequest() proto.Message { return m.in.New().Interface() }

// NewResponse makes an empty response.
func (m *Method) NewResponse() proto.Message { return m.out.New().Interface() }

// Streams says whether it is no unary method.
func (m *Method) Streams() bool { return m.asks || m.answers }

// mayBlock: it is unary, and may wait.
func (m *Method) mayBlock() bool { return m != nil && (m.Rule == RetryRemaining || m.agents) }

// MethodOf returns the routing of a method, nil if it is not routed.
func MethodOf(name string) *Method { return methods[name] }

// methods are all by the names that gRPC gives them.
var methods = func() map[string]*Method {
	changes := map[string]bool{}
	for _, op := range policy.Operations {
		changes[op.Name] = op.Changes
	}
	out := map[string]*Method{}
	for _, desc := range Services {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(desc.ServiceName))
		if err != nil {
			panic(err) // the contract is linked in
		}
		all := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range all.Len() {
			m, name := all.Get(i), "/"+desc.ServiceName+"/"+string(all.Get(i).Name())
			rule := rules[name]
			if rule == 0 {
				rule = ReadOnly
			}
			out[name] = &Method{
				Rule: rule, Changes: changes[name], done: repeated[name], in: typeOf(m.Input()), out: typeOf(m.Output()), ids: idsOf(m.Input()),
				asks: m.IsStreamingClient(), answers: m.IsStreamingServer(), agents: desc == &a2apb.A2AService_ServiceDesc,
			}
		}
	}
	return out
}()

func typeOf(d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err) // the contract is linked in
	}
	return t
}

func idsOf(d protoreflect.MessageDescriptor) (ids []protoreflect.FieldDescriptor) {
	for _, name := range []protoreflect.Name{"request_id", "event_id", "message_id", "write_id"} {
		if field := d.Fields().ByName(name); field != nil && field.Kind() == protoreflect.StringKind {
			ids = append(ids, field)
		}
	}
	return ids
}

// retryable reports whether a unary call that may have been executed may be repeated.
func (m *Method) retryable(ctx context.Context, req any) bool {
	switch m.Rule {
	case ReadOnly, Idempotent, RetryRemaining, FanOut:
		return true
	case IdempotentByKey:
		return m.hasID(req) || m.agents && len(metadata.ValueFromIncomingContext(ctx, idempotencyKey)) > 0
	}
	return false
}

// hasID: the request has an id by which its repeat is known.
func (m *Method) hasID(req any) bool {
	message, ok := req.(proto.Message)
	if !ok {
		return false
	}
	for _, field := range m.ids {
		if message.ProtoReflect().Has(field) {
			return true
		}
	}
	return false
}
