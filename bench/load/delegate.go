package load

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// packDelegate has a member that asks another one, here or elsewhere.
const packDelegate = "bench-delegate"

// visitSteps is how many steps a run requests before its next visit: a visit
// keeps its steps. runSteps is after how many a client takes a new run.
const (
	visitSteps = 25
	runSteps   = 2000
)

// delegatePart measures a delegation from the request of its step to its answer:
// to another sidecar on loopback, and to a member of the same one.
func (s *suite) delegatePart(ctx context.Context) (Samples, error) {
	return interleave(s.sizes.Rounds, []arm{
		{"delegations to another sidecar", func(int) (map[string]float64, error) { return s.farArm(ctx) }},
		{"delegations to a member", func(int) (map[string]float64, error) { return s.memberArm(ctx) }},
	}, s.logRound)
}

// delegations are the figures of delegatePart.
func delegations() []figure {
	return []figure{
		plainFigure("delegate_p50_us", "us", "delegation to another sidecar and back, Go worker, p50"),
		plainFigure("delegate_local_p50_us", "us", "delegation to a member of the same sidecar and back, p50"),
	}
}

func (s *suite) farArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.sidecar(ctx, []string{"--http", "127.0.0.1:0"}, func(far ready) error {
		card := fmt.Sprintf("echo=http://%s/a2a/%s/.well-known/agent-card.json", far.HTTP, agentTenant)
		return s.sidecar(ctx, []string{"--allow-tool", "*", "--agent", card}, func(near ready) (err error) {
			out["delegate_p50_us"], err = s.delegate(ctx, near.GRPC, far.GRPC)
			return err
		})
	})
	return out, err
}

func (s *suite) memberArm(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := s.sidecar(ctx, []string{"--allow-tool", "*"}, func(both ready) (err error) {
		out["delegate_local_p50_us"], err = s.delegate(ctx, both.GRPC, both.GRPC)
		return err
	})
	return out, err
}

// pawl runs use against a fresh sidecar with more flags.
func (s *suite) sidecar(ctx context.Context, flags []string, use func(ready) error) error {
	dir, cleanup, err := tempDir(s.root, "delegate")
	if err != nil {
		return err
	}
	defer cleanup()
	c, err := s.start(ctx, "serve", s.serveArgs(dir, flags...)...)
	if err != nil {
		return err
	}
	defer c.stop()
	var up ready
	if err := c.next(ctx, &up); err != nil {
		return err
	}
	return use(up)
}

// delegate has runs of one sidecar ask the agent whose worker is at another.
func (s *suite) delegate(ctx context.Context, from, to string) (p50us float64, err error) {
	hands, err := s.start(ctx, "agent", to)
	if err != nil {
		return 0, err
	}
	defer hands.stop()
	got, err := s.load(ctx, s.job("delegate", from, 1))
	return got.P50us, err
}

// stepClient requests steps of one tool, or of one agent, again and again.
type stepClient struct {
	pack     string
	tool     string
	rpc      pawlv1.RunServiceClient
	stream   grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse]
	stop     context.CancelFunc
	run      string
	turn     *pawlv1.TurnRef
	requests int
	runs     uint64
}

func newStepClient(conn *grpc.ClientConn, pack, tool string) *stepClient {
	return &stepClient{pack: pack, tool: tool, rpc: pawlv1.NewRunServiceClient(conn), stop: func() {}}
}

// once asks for one step and waits for its answer.
func (c *stepClient) once(ctx context.Context) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	c.requests++
	answer, err := c.rpc.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: c.run, TurnSeq: c.turn.GetTurnSeq(), Attempt: c.turn.GetAttempt(), TurnToken: c.turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: c.tool, PayloadJson: echoArguments}},
	})
	if err != nil {
		return err
	}
	return c.answered(answer.GetOutcomes()[0].GetStep().GetStep())
}

// ready begins a run, or a visit, when the one before has had its share.
func (c *stepClient) ready(ctx context.Context) error {
	switch {
	case c.requests%runSteps == 0:
		return c.start(ctx)
	case c.requests%visitSteps == 0:
		moved, err := c.rpc.EmitEvent(ctx, &pawlv1.EmitEventRequest{
			RunId: c.run, Event: eventName, TurnToken: c.turn.GetToken(), EventId: fmt.Sprint(c.requests),
		})
		c.turn = moved.GetTurn()
		return err
	}
	return nil
}

func (c *stepClient) start(ctx context.Context) error {
	answer, err := c.rpc.StartRun(ctx, &pawlv1.StartRunRequest{Pack: c.pack, Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		return err
	}
	c.run, c.turn = answer.GetRun().GetRunId(), answer.GetTurn()
	c.runs++
	c.stop()
	ctx, c.stop = context.WithCancel(ctx)
	c.stream, err = c.rpc.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: c.run, Follow: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_ENDED},
	})
	return err
}

// answered reads up to the answer of a step.
func (c *stepClient) answered(step uint32) error {
	for {
		got, err := c.stream.Recv()
		if err != nil {
			return err
		}
		if got.GetRecord().GetEnded() != nil {
			return fmt.Errorf("the run ended: %v", got.GetRecord())
		}
		if answer := got.GetRecord().GetStepResolved(); answer.GetStep() == step {
			if !answer.GetOk() {
				return fmt.Errorf("a step failed: %v", answer.GetError())
			}
			return nil
		}
	}
}

func (c *stepClient) started() uint64 { return c.runs }
