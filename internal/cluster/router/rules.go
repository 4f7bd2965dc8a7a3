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

// Rule defines how the router handles the calls of a method: where it makes a call, and whether it
// repeats a call that a node may have begun and not completed (because the node died or its lease
// ended).
type Rule uint8

// These are the rules. Under every rule, the router repeats a call that no node has begun.
const (
	// ReadOnly is the rule for a unary call that changes no state. The router repeats it.
	ReadOnly Rule = iota + 1
	// Idempotent is the rule for a unary call that has the same effect if it is made twice. The router
	// repeats it.
	Idempotent
	// IdempotentByKey is the rule for a unary call whose repeat the runtime recognizes by an id. The
	// router repeats it only if the request has this id, for example an event_id.
	IdempotentByKey
	// NoRetry is the rule for a call whose repeat would take effect twice or return a wrong answer. The
	// router never repeats it if a node may have begun it.
	NoRetry
	// RetryUntilFirst is the rule for a stream that reads. The router repeats it until the caller has
	// received the first message.
	RetryUntilFirst
	// ResumeStream is the rule for a stream that reads from a position. The router repeats it from the
	// position after the last message that the caller has received.
	ResumeStream
	// RetryRemaining is the rule for WaitRun. The router repeats it with the rest of the requested
	// waiting time.
	RetryRemaining
	// Bidi is the rule for a stream on which both sides send. The router repeats it until a node has
	// begun it. After that, the stream ends if its node ends.
	Bidi
	// FanOut is the rule for a call that reads all partitions. The router makes it at each partition,
	// one after the other, and merges the answers. It repeats the call of a partition.
	FanOut
	// NodeInfo is the rule for a call that concerns this node. The router itself answers it.
	NodeInfo
)

// Services are the gRPC services whose calls the router sends to partitions.
var Services = []*grpc.ServiceDesc{
	&pawlv1.PackService_ServiceDesc, &pawlv1.RunService_ServiceDesc, &pawlv1.ControlService_ServiceDesc,
	&pawlv1.DeliveryService_ServiceDesc, &pawlv1.StoreService_ServiceDesc, &pawlv1.WorkerService_ServiceDesc,
	&a2apb.A2AService_ServiceDesc,
}

// rules contains the rule of each method that changes state, streams, or concerns all partitions. A
// method that is not in it has the rule ReadOnly.
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
	pawlv1.RunService_ResolveStep_FullMethodName:       Idempotent, // the runtime recognizes a repeat by the step
	pawlv1.RunService_RequestModel_FullMethodName:      NoRetry,
	pawlv1.RunService_AnswerModel_FullMethodName:       Idempotent, // the runtime recognizes a repeat by the attempt
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

	// The methods below, except AckConsumer, must not be repeated. A repeat would not find the webhook
	// that the first attempt removed, or would overwrite a change that another caller made in the
	// meantime.
	pawlv1.DeliveryService_AckConsumer_FullMethodName:       Idempotent,
	pawlv1.DeliveryService_PutWebhook_FullMethodName:        NoRetry,
	pawlv1.DeliveryService_DeleteConsumer_FullMethodName:    NoRetry,
	pawlv1.DeliveryService_DeleteWebhook_FullMethodName:     NoRetry,
	pawlv1.DeliveryService_ResendDeadLetter_FullMethodName:  NoRetry,
	pawlv1.DeliveryService_DiscardDeadLetter_FullMethodName: NoRetry,

	// A backup is not repeated after the first data was sent. The data has left the store, and the
	// audit log has a line about it.
	pawlv1.StoreService_Backup_FullMethodName:         RetryUntilFirst,
	pawlv1.StoreService_CheckStore_FullMethodName:     FanOut,
	pawlv1.StoreService_GetStoreStats_FullMethodName:  FanOut,
	pawlv1.StoreService_ListPartitions_FullMethodName: NodeInfo,
	pawlv1.ControlService_ListLimits_FullMethodName:   FanOut,

	pawlv1.WorkerService_Work_FullMethodName: Bidi,

	a2apb.A2AService_SendMessage_FullMethodName:                      IdempotentByKey, // the id is the header Idempotency-Key
	a2apb.A2AService_SendStreamingMessage_FullMethodName:             NoRetry,
	a2apb.A2AService_SubscribeToTask_FullMethodName:                  RetryUntilFirst,
	a2apb.A2AService_CancelTask_FullMethodName:                       NoRetry,
	a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName: NoRetry,
	a2apb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName: NoRetry,
}

// repeated maps a method to the error reason which shows that an earlier attempt of the call took
// effect. If a repeated call gets this error, the router answers the call with success.
var repeated = map[string]string{
	// CURSOR_BEHIND means that the consumer has already acknowledged this position or a later one. An
	// earlier attempt may have done so.
	pawlv1.DeliveryService_AckConsumer_FullMethodName: "CURSOR_BEHIND",
}

// Method has the routing of one gRPC method.
type Method struct {
	Rule Rule
	// Changes means that the method changes stored state. If the outcome of its call is unknown, the
	// caller receives COMMIT_UNKNOWN.
	Changes bool
	in, out protoreflect.MessageType
	// done is the error reason of the method in the map repeated, or "". It shows that an earlier
	// attempt took effect.
	done string
	// ids are the fields of the request that contain the ids by which the runtime recognizes a repeated
	// request.
	ids []protoreflect.FieldDescriptor
	// clientStreams means that the client sends a stream. serverStreams means that the server sends a stream. agents
	// means that the method belongs to the A2A service.
	clientStreams, serverStreams, agents bool
}

// NewRequest returns a new empty request of the method.
func (m *Method) NewRequest() proto.Message { return m.in.New().Interface() }

// NewResponse returns a new empty response of the method.
func (m *Method) NewResponse() proto.Message { return m.out.New().Interface() }

// Streams reports whether the method streams in at least one direction.
func (m *Method) Streams() bool { return m.clientStreams || m.serverStreams }

// mayBlock reports whether a unary call of the method may wait for a run or a task.
func (m *Method) mayBlock() bool { return m != nil && (m.Rule == RetryRemaining || m.agents) }

// MethodOf returns the routing of a method. It returns nil if the router does not route the method.
// name is the full name, for example /pawl.v1.RunService/StartRun.
func MethodOf(name string) *Method { return methods[name] }

// methods contains all routed methods by their full gRPC names.
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
				clientStreams: m.IsStreamingClient(), serverStreams: m.IsStreamingServer(), agents: desc == &a2apb.A2AService_ServiceDesc,
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

// retryable reports whether the router may repeat a unary call that a node may have executed.
func (m *Method) retryable(ctx context.Context, req any) bool {
	switch m.Rule {
	case ReadOnly, Idempotent, RetryRemaining, FanOut:
		return true
	case IdempotentByKey:
		return m.hasID(req) || m.agents && len(metadata.ValueFromIncomingContext(ctx, idempotencyKey)) > 0
	}
	return false
}

// hasID reports whether the request has an id by which the runtime recognizes a repeat.
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
