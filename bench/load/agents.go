package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/bench/load/host"
)

const (
	// packAgent has one agent; agentTenant is its address.
	packAgent   = "bench-agent"
	agentTenant = packAgent + "/echo"
	// idleTasks wait, each with a subscriber.
	idleTasks = 1000
)

// agentsPart measures messages to an agent whose turns a Go worker executes, over
// gRPC, beside EmitEvent in the same rounds; then what subscribers cost.
func (s *suite) agentsPart(ctx context.Context) (Samples, error) {
	all, err := interleave(s.sizes.Rounds, []arm{
		{"EmitEvent beside agents", func(int) (map[string]float64, error) { return s.besideAgentsArm(ctx) }},
		{"messages to an agent", func(int) (map[string]float64, error) { return s.sendArm(ctx) }},
	}, s.logRound)
	if err != nil {
		return all, err
	}
	more, err := interleave(1, []arm{
		{"subscribers of idle tasks", func(int) (map[string]float64, error) { return s.subscribersArm(ctx) }},
	}, s.logRound)
	all.merge(more)
	return all, err
}

// agents are the figures of agentsPart.
func agents() []figure {
	return []figure{
		plainFigure("a2a_emit_p50_us", "us", "EmitEvent beside agents, alone, p50"),
		plainFigure("a2a_send_p50_us", "us", "blocking SendMessage through a Go worker, alone, p50"),
		plainFigure("a2a_send_tps_64", "/s", "blocking SendMessage through a Go worker, 64 clients"),
		compared("a2a_send_vs_emit", "SendMessage alone, p50, against EmitEvent's", stat.AtMost(3.5), ratioOf("a2a_send_p50_us", "a2a_emit_p50_us")),
		figureWithBar("a2a_subscribers_rss_mb", "MB", "RSS growth under 1 000 subscribers of idle tasks after a restart", stat.AtMost(80)),
	}
}

func (s *suite) besideAgentsArm(ctx context.Context) (map[string]float64, error) {
	alone, err := s.measureLoad(ctx, "emit", 1)
	return map[string]float64{"a2a_emit_p50_us": alone.P50us}, err
}

func (s *suite) sendArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.onServer(ctx, "serve", func(target string) error {
		hands, err := s.start(ctx, "agent", target)
		if err != nil {
			return err
		}
		defer hands.stop()
		alone, err := s.load(ctx, s.job("send", target, 1))
		if err != nil {
			return err
		}
		many, err := s.load(ctx, s.job("send", target, workerRuns))
		out["a2a_send_p50_us"], out["a2a_send_tps_64"] = alone.P50us, many.PerSec
		return err
	})
	return out, err
}

// subscribersArm leaves tasks that no worker executes, kills the sidecar, and subscribes to each
// task at the sidecar's successor.
func (s *suite) subscribersArm(ctx context.Context) (map[string]float64, error) {
	dir, cleanup, err := tempDir(s.root, "agents")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	first, err := s.timedStart(ctx, dir)
	if err != nil {
		return nil, err
	}
	tasks, err := startIdleTasks(ctx, first.target)
	first.server.kill()
	if err != nil {
		return nil, err
	}
	up, err := s.timedStart(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer up.server.stop()
	pause(ctx, idleSettle, nil)
	before, err := host.RSSMB(up.server.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	readers, err := s.start(ctx, "subscribers")
	if err != nil {
		return nil, err
	}
	defer readers.stop()
	var all ready
	if err := readers.call(ctx, subscribeJob{Target: up.target, Tasks: tasks}, &all); err != nil {
		return nil, err
	}
	pause(ctx, idleSettle, nil)
	after, err := host.RSSMB(up.server.cmd.Process.Pid)
	return map[string]float64{"a2a_subscribers_rss_mb": after - before}, err
}

// startIdleTasks starts tasks for which there is no worker and returns their ids.
func startIdleTasks(ctx context.Context, target string) ([]string, error) {
	conns, closeAll, err := dial(target, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	c := newSendClient(conns[0], 0)
	c.configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	var tasks []string
	for range idleTasks {
		task, err := c.send(ctx)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task.GetId())
	}
	return tasks, nil
}

// versionContext is a context with the version of the protocol.
func versionContext(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0")
}

// sendClient sends one message after the other, each to a task of its own.
type sendClient struct {
	rpc           a2apb.A2AServiceClient
	prefix        string
	configuration *a2apb.SendMessageConfiguration
	sent          uint64
}

func newSendClient(conn *grpc.ClientConn, number int) *sendClient {
	return &sendClient{rpc: a2apb.NewA2AServiceClient(conn), prefix: fmt.Sprintf("client-%04d", number)}
}

// once sends a message and waits for its task to be done.
func (c *sendClient) once(ctx context.Context) error {
	task, err := c.send(ctx)
	if err == nil && task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		err = fmt.Errorf("a task is %v", task.GetStatus())
	}
	return err
}

func (c *sendClient) send(ctx context.Context) (*a2apb.Task, error) {
	c.sent++
	got, err := c.rpc.SendMessage(versionContext(ctx), &a2apb.SendMessageRequest{
		Tenant: agentTenant, Configuration: c.configuration,
		Message: &a2apb.Message{
			MessageId: fmt.Sprintf("%s-%08d", c.prefix, c.sent), Role: a2apb.Role_ROLE_USER,
			Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}},
		},
	})
	return got.GetTask(), err
}

func (c *sendClient) started() uint64 { return c.sent }
