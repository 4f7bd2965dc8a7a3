package client

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// wire is the client for one protocol binding. It uses the protobuf messages of the protocol, because
// the SDK's conversions for gRPC keep only objects in a data part.
type wire interface {
	send(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error)
	get(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.GetTaskRequest) (*a2apb.Task, error)
	cancel(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.CancelTaskRequest) error
	// subscribe returns an iterator over the events of a task. For each event it yields whether the
	// event is relevant, see [mattersProto] and [endsOrAsks].
	subscribe(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.SubscribeToTaskRequest) iter.Seq2[bool, error]
	close() error
}

// grpcWire is the gRPC binding.
type grpcWire struct {
	client a2apb.A2AServiceClient
	conn   *grpc.ClientConn
}

func newGRPCWire(conn *grpc.ClientConn) *grpcWire {
	return &grpcWire{client: a2apb.NewA2AServiceClient(conn), conn: conn}
}

func (w *grpcWire) send(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	resp, err := w.client.SendMessage(withMetadata(ctx, params), req)
	return resp, ofGRPC(err)
}

func (w *grpcWire) get(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	task, err := w.client.GetTask(withMetadata(ctx, params), req)
	return task, ofGRPC(err)
}

func (w *grpcWire) cancel(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.CancelTaskRequest) error {
	_, err := w.client.CancelTask(withMetadata(ctx, params), req)
	return ofGRPC(err)
}

func (w *grpcWire) subscribe(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.SubscribeToTaskRequest) iter.Seq2[bool, error] {
	return func(yield func(bool, error) bool) {
		stream, err := w.client.SubscribeToTask(withMetadata(ctx, params), req)
		for err == nil {
			var event *a2apb.StreamResponse
			if event, err = stream.Recv(); err == nil && !yield(mattersProto(event), nil) {
				return
			}
		}
		if err = ofGRPC(err); err != nil {
			yield(false, err)
		}
	}
}

func (w *grpcWire) close() error { return w.conn.Close() }

func withMetadata(ctx context.Context, params a2aclient.ServiceParams) context.Context {
	md := metadata.MD{}
	for key, values := range params {
		md.Append(strings.ToLower(key), values...)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// httpWire is the client for either of the HTTP bindings. The types of the SDK and the protobuf
// messages have the same JSON.
type httpWire struct{ transport a2aclient.Transport }

// send sends a message and returns the agent's answer, a task or a message.
func (w httpWire) send(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	var out a2a.SendMessageRequest
	raw, err := protojson.Marshal(req)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return nil, newRefusal("PAYLOAD_INVALID", err)
	}
	result, err := w.transport.SendMessage(ctx, params, &out)
	if err != nil {
		return nil, ofRPC(err)
	}
	resp := &a2apb.SendMessageResponse{}
	return resp, reread(&a2a.StreamResponse{Event: result}, resp)
}

func (w httpWire) get(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	none := 0
	got, err := w.transport.GetTask(ctx, params, &a2a.GetTaskRequest{Tenant: req.GetTenant(), ID: a2a.TaskID(req.GetId()), HistoryLength: &none})
	if err != nil {
		return nil, err
	}
	task := &a2apb.Task{}
	return task, reread(got, task)
}

func (w httpWire) cancel(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.CancelTaskRequest) error {
	_, err := w.transport.CancelTask(ctx, params, &a2a.CancelTaskRequest{Tenant: req.GetTenant(), ID: a2a.TaskID(req.GetId())})
	return err
}

func (w httpWire) subscribe(ctx context.Context, params a2aclient.ServiceParams, req *a2apb.SubscribeToTaskRequest) iter.Seq2[bool, error] {
	return func(yield func(bool, error) bool) {
		for event, err := range w.transport.SubscribeToTask(ctx, params, &a2a.SubscribeToTaskRequest{Tenant: req.GetTenant(), ID: a2a.TaskID(req.GetId())}) {
			if !yield(err == nil && endsOrAsks(event), err) || err != nil {
				return
			}
		}
	}
}

func (w httpWire) close() error { return w.transport.Destroy() }

// reread converts an answer of the SDK to a protobuf message. It ignores unknown fields. If a value
// does not exist in the protocol, this is an error of the agent.
func reread(answer any, into proto.Message) error {
	raw, err := json.Marshal(answer)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, into)
	}
	if err != nil {
		return newRefusal("AGENT_PROTOCOL", err)
	}
	return nil
}

// endsOrAsks reports whether an event may mean that the task asks a question or has ended.
func endsOrAsks(event a2a.Event) bool {
	switch e := event.(type) {
	case *a2a.Task:
		return true
	case *a2a.TaskStatusUpdateEvent:
		return mattersState(a2apb.TaskState(a2apb.TaskState_value[string(e.Status.State)]))
	}
	return false
}

func mattersProto(event *a2apb.StreamResponse) bool {
	return event.GetTask() != nil || mattersState(event.GetStatusUpdate().GetStatus().GetState())
}

func mattersState(s a2apb.TaskState) bool {
	state := agentStates[s]
	return state.Ended() || state == machine.AgentAsks || state == machine.AgentAsksAuth
}
