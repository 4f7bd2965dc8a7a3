package load

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// newClient makes one client of a job.
func newClient(job loadJob, conn *grpc.ClientConn, number int) (client, error) {
	switch job.Kind {
	case "echo":
		return &echoClient{rpc: healthpb.NewHealthClient(conn)}, nil
	case "emit":
		return newEmitClient(job, conn, number), nil
	case "send":
		return newSendClient(conn, number), nil
	case "delegate":
		return newStepClient(conn, packDelegate, "echo"), nil
	case "tool":
		return newStepClient(conn, packTools, mcpServer+"/"+mcpTool), nil
	case "mcp":
		return newMCPClient(job.Command)
	}
	return nil, fmt.Errorf("kind %q; want echo, emit, serve, send, delegate, tool or mcp", job.Kind)
}

type echoClient struct{ rpc healthpb.HealthClient }

func (c *echoClient) once(ctx context.Context) error {
	_, err := c.rpc.Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

func (c *echoClient) started() uint64 { return 0 }

// emitClient drives one run after the other, each for runTransitions events.
type emitClient struct {
	rpc    pawlv1.RunServiceClient
	space  string
	pack   string
	prefix string
	value  *pawlv1.ArtifactValue
	run    string
	// token of the run's open turn.
	token string
	sent  int
	runs  uint64
}

func newEmitClient(job loadJob, conn *grpc.ClientConn, number int) *emitClient {
	text := strings.Repeat("0123456789abcdef", job.Bytes/16+1)[:job.Bytes]
	return &emitClient{
		rpc: pawlv1.NewRunServiceClient(conn), space: job.Namespace, pack: job.Pack,
		prefix: fmt.Sprintf("client-%04d", number),
		value:  &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: text}},
	}
}

// once emits one event, in a new run when the old one has had its share.
func (c *emitClient) once(ctx context.Context) error {
	if c.sent%runTransitions == 0 {
		if err := c.start(ctx); err != nil {
			return err
		}
	}
	c.sent++
	answer, err := c.rpc.EmitEvent(ctx, c.event())
	c.token = answer.GetTurn().GetToken()
	return err
}

// event is the request that is to be sent next.
func (c *emitClient) event() *pawlv1.EmitEventRequest {
	return &pawlv1.EmitEventRequest{
		Namespace: c.space,
		RunId:     c.run,
		Event:     eventName,
		TurnToken: c.token,
		EventId:   fmt.Sprintf("%s-%08d", c.prefix, c.sent),
		Artifacts: []*pawlv1.ArtifactWrite{{Name: artifactName, Value: c.value}},
	}
}

// first is the request that begins a run.
func (c *emitClient) first() *pawlv1.StartRunRequest {
	return &pawlv1.StartRunRequest{Namespace: c.space, Pack: c.pack, Execution: pawlv1.Execution_EXECUTION_CALLER}
}

func (c *emitClient) start(ctx context.Context) error {
	answer, err := c.rpc.StartRun(ctx, c.first())
	if err != nil {
		return err
	}
	c.run, c.token = answer.GetRun().GetRunId(), answer.GetTurn().GetToken()
	c.runs++
	return nil
}

func (c *emitClient) started() uint64 { return c.runs }
