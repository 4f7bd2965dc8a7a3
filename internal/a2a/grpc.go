package a2a

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// GRPC returns the implementation of the generated gRPC service.
func (s *Service) GRPC() a2apb.A2AServiceServer { return &grpcService{s: s} }

type grpcService struct {
	a2apb.UnimplementedA2AServiceServer
	s *Service
}

// unary calls a method and converts its error for gRPC.
func unary[In, Out proto.Message](ctx context.Context, g *grpcService, in In, do func(context.Context, In) (Out, error)) (Out, error) {
	out, err := do(ctx, in)
	if err == nil {
		return out, nil
	}
	var none Out
	method, _ := grpc.Method(ctx)
	return none, g.s.problem(ctx, method, err).GRPCStatus().Err()
}

// streamed calls a streaming method, sends its items, and converts its error for gRPC. It does not send items that only
// keep a connection alive.
func streamed[In proto.Message](g *grpcService, in In, stream grpc.ServerStreamingServer[a2apb.StreamResponse], do func(context.Context, In, sendFunc) error) error {
	begun := false
	err := do(stream.Context(), in, func(it item) error {
		if it.StreamResponse == nil {
			return nil
		}
		if !begun {
			begun = true
			// The headers are sent with the first event. They notify the reader that the stream is
			// accepted.
			_ = stream.SendHeader(metadata.MD{})
		}
		return stream.Send(it.StreamResponse)
	})
	if err == nil {
		return nil
	}
	method, _ := grpc.Method(stream.Context())
	return g.s.problem(stream.Context(), method, err).GRPCStatus().Err()
}

// SendMessage implements lf.a2a.v1.A2AService.
func (g *grpcService) SendMessage(ctx context.Context, in *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	return unary(ctx, g, in, g.s.sendMessage)
}

// SendStreamingMessage implements lf.a2a.v1.A2AService.
func (g *grpcService) SendStreamingMessage(in *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	return streamed(g, in, stream, g.s.streamMessage)
}

// GetTask implements lf.a2a.v1.A2AService.
func (g *grpcService) GetTask(ctx context.Context, in *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	return unary(ctx, g, in, g.s.getTask)
}

// ListTasks implements lf.a2a.v1.A2AService.
func (g *grpcService) ListTasks(ctx context.Context, in *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	if in.PageSize != nil && in.GetPageSize() == 0 {
		// The official Go client sends 0 over gRPC if its caller set no page size. So 0 means the default here.
		in.PageSize = nil
	}
	return unary(ctx, g, in, g.s.listTasks)
}

// CancelTask implements lf.a2a.v1.A2AService.
func (g *grpcService) CancelTask(ctx context.Context, in *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	return unary(ctx, g, in, g.s.cancelTask)
}

// SubscribeToTask implements lf.a2a.v1.A2AService.
func (g *grpcService) SubscribeToTask(in *a2apb.SubscribeToTaskRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	return streamed(g, in, stream, g.s.subscribe)
}

// CreateTaskPushNotificationConfig implements lf.a2a.v1.A2AService.
func (g *grpcService) CreateTaskPushNotificationConfig(ctx context.Context, in *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	return unary(ctx, g, in, g.s.createPush)
}

// GetTaskPushNotificationConfig implements lf.a2a.v1.A2AService.
func (g *grpcService) GetTaskPushNotificationConfig(ctx context.Context, in *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	return unary(ctx, g, in, g.s.getPush)
}

// ListTaskPushNotificationConfigs implements lf.a2a.v1.A2AService.
func (g *grpcService) ListTaskPushNotificationConfigs(ctx context.Context, in *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	return unary(ctx, g, in, g.s.listPush)
}

// DeleteTaskPushNotificationConfig implements lf.a2a.v1.A2AService.
func (g *grpcService) DeleteTaskPushNotificationConfig(ctx context.Context, in *a2apb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	return unary(ctx, g, in, g.s.deletePush)
}

// GetExtendedAgentCard implements lf.a2a.v1.A2AService.
func (g *grpcService) GetExtendedAgentCard(ctx context.Context, in *a2apb.GetExtendedAgentCardRequest) (*a2apb.AgentCard, error) {
	return unary(ctx, g, in, g.s.extendedCard)
}
