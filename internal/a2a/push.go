package a2a

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// PushConfigs stores the push configurations of tasks and starts their deliveries. The caller must have
// checked the owner and the agent.
type PushConfigs interface {
	// Create stores a configuration of a task under its id, or under a new id. It replaces a
	// configuration with the same id. Errors: an [*Error] for an invalid value, and a *machine.Error if the
	// task has too many configurations.
	Create(ctx context.Context, task *machine.State, config PushConfig) (PushConfig, error)
	// Configs lists the configurations of a task in the order of their ids.
	Configs(ctx context.Context, task *machine.State) ([]PushConfig, error)
	// Delete removes a configuration. If it is missing, this is no error.
	Delete(ctx context.Context, task *machine.State, id string) error
}

// PushConfig is the address to which the events of a task are sent.
type PushConfig struct {
	ID  string
	URL string
	// Token is sent to the receiver unchanged. Scheme and Credentials form the header Authorization.
	// Answers of the API never contain these values.
	Token               string
	Scheme, Credentials string
}

// redacted replaces a secret in an answer.
const redacted = "[redacted]"

func configToProto(tenant, task string, c PushConfig) *a2apb.TaskPushNotificationConfig {
	out := &a2apb.TaskPushNotificationConfig{Tenant: tenant, Id: c.ID, TaskId: task, Url: c.URL}
	if c.Token != "" {
		out.Token = redacted
	}
	if c.Scheme != "" {
		out.Authentication = &a2apb.AuthenticationInfo{Scheme: c.Scheme}
		if c.Credentials != "" {
			out.Authentication.Credentials = redacted
		}
	}
	return out
}

func configFromProto(in *a2apb.TaskPushNotificationConfig) PushConfig {
	return PushConfig{
		ID: in.GetId(), URL: in.GetUrl(), Token: in.GetToken(),
		Scheme: in.GetAuthentication().GetScheme(), Credentials: in.GetAuthentication().GetCredentials(),
	}
}

// pushed makes the checks of one of the four methods about push configurations, and returns the run of its task. It
// returns an error if the service sends no push notifications.
func (s *Service) pushed(ctx context.Context, tenant, task string) (*machine.State, error) {
	if _, err := s.negotiate(ctx); err != nil {
		return nil, err
	}
	if s.cfg.Push == nil {
		return nil, fail(pushNotSupported, "this agent sends no push notifications")
	}
	_, state, err := s.find(ctx, tenant, task)
	return state, err
}

// configure stores the push configuration in a message. It does nothing if there is none, or if the task has ended.
func (s *Service) configure(ctx context.Context, m *inbound, state *machine.State) error {
	in := m.req.GetConfiguration().GetTaskPushNotificationConfig()
	if in == nil || state.Status.Terminal() {
		return nil
	}
	_, err := s.cfg.Push.Create(ctx, state, configFromProto(in))
	return err
}

func (s *Service) createPush(ctx context.Context, in *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	state, err := s.pushed(ctx, in.GetTenant(), in.GetTaskId())
	if err != nil {
		return nil, err
	}
	if in.GetUrl() == "" {
		return nil, failAt(invalidParams, "url", "is required")
	}
	kept, err := s.cfg.Push.Create(ctx, state, configFromProto(in))
	if err != nil {
		return nil, err
	}
	return configToProto(in.GetTenant(), state.RunID, kept), nil
}

// getPush executes GetTaskPushNotificationConfig.
func (s *Service) getPush(ctx context.Context, in *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	state, err := s.pushed(ctx, in.GetTenant(), in.GetTaskId())
	if err != nil {
		return nil, err
	}
	all, err := s.cfg.Push.Configs(ctx, state)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.ID == in.GetId() {
			return configToProto(in.GetTenant(), state.RunID, c), nil
		}
	}
	return nil, failAt(taskNotFound, "id", "task %s has no push configuration %q", state.RunID, clip(in.GetId(), 100))
}

// listPush executes ListTaskPushNotificationConfigs. The configurations of a task are listed by id, and a page
// token is the last id of a page.
func (s *Service) listPush(ctx context.Context, in *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	if in.GetPageSize() < 0 {
		return nil, failAt(invalidParams, "pageSize", "is %d, want 0 or more", in.GetPageSize())
	}
	state, err := s.pushed(ctx, in.GetTenant(), in.GetTaskId())
	if err != nil {
		return nil, err
	}
	all, err := s.cfg.Push.Configs(ctx, state)
	if err != nil {
		return nil, err
	}
	out := &a2apb.ListTaskPushNotificationConfigsResponse{Configs: []*a2apb.TaskPushNotificationConfig{}}
	for _, c := range all {
		if in.GetPageToken() != "" && c.ID <= in.GetPageToken() {
			continue
		}
		if n := len(out.Configs); in.GetPageSize() > 0 && n == int(in.GetPageSize()) {
			out.NextPageToken = out.GetConfigs()[n-1].GetId()
			break
		}
		out.Configs = append(out.Configs, configToProto(in.GetTenant(), state.RunID, c))
	}
	return out, nil
}

func (s *Service) deletePush(ctx context.Context, in *a2apb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	state, err := s.pushed(ctx, in.GetTenant(), in.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.cfg.Push.Delete(ctx, state, in.GetId())
}
