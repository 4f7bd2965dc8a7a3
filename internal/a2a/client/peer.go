package client

import (
	"context"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// callTimeout limits one call to an agent. Streams have no timeout.
const callTimeout = 30 * time.Second

// Peer calls one agent over one of its interfaces. It stores nothing about tasks. The journal of the
// delegating run stores this data.
type Peer struct {
	wire wire
	// tenant is the tenant of the interface. Every request must contain it.
	tenant string
	// headers are sent with every call. They contain the operator's credentials for this agent.
	headers a2aclient.ServiceParams
	// idempotent reports whether the agent declares that a repeated message belongs to the same task.
	idempotent bool
	// bound reports whether the agent declares that it enforces the budget and the tool lists that a delegation
	// contains.
	bound bool
	// isLocal reports whether the agent is a member of a pack of this store. Then no message leaves the
	// process.
	isLocal bool
	// origin is this sidecar's base URL. It is "" if agents could not use it.
	origin string
}

// Idempotent reports whether a repeated message belongs to the same task.
func (p *Peer) Idempotent() bool { return p.idempotent }

// Bound reports whether the agent enforces the budget and the tool lists that a delegation contains.
func (p *Peer) Bound() bool { return p.bound }

// Send sends a message and does not wait until the agent has done the work. A repeated message has the
// same bytes, so that an idempotent agent recognizes it.
func (p *Peer) Send(ctx context.Context, from *machine.Delegation, m machine.AgentMessage) (machine.AgentTask, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pb, err := p.wire.send(ctx, p.params(), p.request(from, m))
	if err != nil {
		return machine.AgentTask{}, faultOf(err)
	}
	if reply := pb.GetMessage(); reply != nil {
		return replyOf(reply)
	}
	return taskOf(pb.GetTask())
}

// request returns the request that sends a message. Its metadata contain the object of [DelegationURI] and, if the
// message has variables, the variables for the agent's run.
func (p *Peer) request(from *machine.Delegation, m machine.AgentMessage) *a2apb.SendMessageRequest {
	said := sender(from, m.Answerer, p.origin)
	if p.isLocal && from.Payer != nil {
		said.GetStructValue().Fields["payer"] = protocol.PayerToProto(from.Payer)
	}
	metadata := &structpb.Struct{Fields: map[string]*structpb.Value{protocol.DelegationURI: said}}
	if len(m.Variables) > 0 {
		metadata.Fields["variables"] = protocol.ValueToProto(m.Variables)
	}
	return &a2apb.SendMessageRequest{
		Tenant: p.tenant,
		Message: &a2apb.Message{
			MessageId: m.ID, TaskId: m.TaskID, ContextId: m.ContextID, Role: a2apb.Role_ROLE_USER,
			Parts: protocol.PartsToProto(m.Parts), Metadata: metadata, Extensions: []string{protocol.DelegationURI},
		},
		Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true},
	}
}

// sender returns the value of [DelegationURI] in a message: which run and step send it, and their limits. If the
// message is the answer to a question, answerer is the principal that gave it.
func sender(from *machine.Delegation, answerer machine.Answerer, origin string) *structpb.Value {
	fields := map[string]*structpb.Value{
		"run":     structpb.NewStringValue(from.Row.RunID),
		"step":    structpb.NewNumberValue(float64(from.Row.Step)),
		"attempt": structpb.NewNumberValue(float64(from.Row.Attempt)),
		// All attempts of a step have the same key but different message ids. Tools of the agent use the key, so that
		// a further attempt does not repeat their effects.
		"idempotency_key": structpb.NewStringValue(machine.IdempotencyKey(from.Row.RunID, from.Row.Step)),
		"depth":           structpb.NewNumberValue(float64(from.Depth)),
		"wall_time_ms":    structpb.NewNumberValue(float64(from.WallTime.Milliseconds())),
		"origin":          structpb.NewStringValue(origin),
	}
	if from.Execution == machine.Sidecar {
		fields["execution"] = structpb.NewStringValue(protocol.ExecutionSidecar)
	}
	if from.Lease != (machine.Amount{}) {
		fields["lease"] = protocol.LeaseToProto(from.Lease)
	}
	if from.Policy.Binds() {
		fields["policy"] = protocol.PolicyToProto(from.Policy)
	}
	if from.Traceparent != "" {
		fields["traceparent"] = structpb.NewStringValue(from.Traceparent)
	}
	if answerer.Name != "" {
		scopes := make([]*structpb.Value, len(answerer.Scopes))
		for i, scope := range answerer.Scopes {
			scopes[i] = structpb.NewStringValue(scope)
		}
		fields["answerer"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"principal": structpb.NewStringValue(answerer.Name),
			"scopes":    structpb.NewListValue(&structpb.ListValue{Values: scopes}),
		}})
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

// params returns the service parameters of every call.
func (p *Peer) params() a2aclient.ServiceParams {
	out := a2aclient.ServiceParams{}
	for key, values := range p.headers {
		out.Append(key, values...)
	}
	out.Append(a2a.SvcParamVersion, protocol.ProtocolVersion)
	out.Append(a2a.SvcParamExtensions, protocol.DelegationURI, protocol.IdempotentURI)
	return out
}

// Follow calls notify with the task each time an event may mean that the task asks a question or has
// ended. It uses the messages of a stream only as a signal, and then reads the task. It returns when
// notify returns false or the stream ends.
func (p *Peer) Follow(ctx context.Context, task string, notify func(machine.AgentTask) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for matters, err := range p.wire.subscribe(ctx, p.params(), &a2apb.SubscribeToTaskRequest{Tenant: p.tenant, Id: task}) {
		if err != nil {
			return p.unfollowed(ctx, task, err, notify)
		}
		if !matters {
			continue
		}
		now, err := p.Get(ctx, task)
		if err != nil {
			return err
		}
		if !notify(now) {
			return nil
		}
	}
	return nil
}

// unfollowed handles the error of a subscription. If the task has ended, it cannot be subscribed to. If
// the agent does not support streams, its task can only be read.
func (p *Peer) unfollowed(ctx context.Context, task string, err error, notify func(machine.AgentTask) bool) error {
	fault := faultOf(err)
	if fault.Kind != machine.AgentRefuses {
		return fault
	}
	now, err := p.Get(ctx, task)
	if err != nil {
		return err
	}
	notify(now)
	return nil
}

// Get returns the present task.
func (p *Peer) Get(ctx context.Context, task string) (machine.AgentTask, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pb, err := p.wire.get(ctx, p.params(), &a2apb.GetTaskRequest{Tenant: p.tenant, Id: task, HistoryLength: new(int32)})
	if err != nil {
		return machine.AgentTask{}, faultOf(err)
	}
	return taskOf(pb)
}

// Cancel cancels the task. If the task can no longer be cancelled or does not exist, this is no error.
func (p *Peer) Cancel(ctx context.Context, task string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := p.wire.cancel(ctx, p.params(), &a2apb.CancelTaskRequest{Tenant: p.tenant, Id: task})
	if err == nil || isNotCancelable(err) {
		return nil
	}
	return faultOf(err)
}
