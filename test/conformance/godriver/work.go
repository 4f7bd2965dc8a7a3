package godriver

import (
	"context"
	"encoding/json"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
)

// worker begins to work, or to serve runs, as the mode says.
func (d *driver) worker(_ context.Context, a args) (any, error) {
	d.mu.Lock()
	serves := d.serves && len(a.Turns)+len(a.Agents) > 0
	d.mu.Unlock()
	if !serves {
		return nil, d.work(d.player(a.script), a)
	}
	s, err := d.newServer(a)
	d.mu.Lock()
	d.server = s
	d.mu.Unlock()
	return nil, err
}

// work begins to work.
func (d *driver) work(p *player, a args) error {
	capacity := max(a.Capacity, 1)
	cfg := pawl.WorkerConfig{
		Conn: d.conn, ID: named(a.WorkerID, a.Name), Packs: a.Packs, AllowUnknown: a.AllowUnknown, Retry: 20 * time.Millisecond,
		Prompts: turnFuncs(p, "turn ", a.Turns), Agents: turnFuncs(p, "agent ", a.Agents), Tools: toolFuncs(p, a.Tools),
		Grace:   time.Duration(a.GraceMS) * time.Millisecond,
		OnError: d.reportError,
	}
	if len(a.Turns)+len(a.Agents) > 0 {
		cfg.Turns = capacity
	}
	if len(a.Tools) > 0 {
		cfg.Steps = capacity
	}
	w, err := pawl.NewWorker(cfg)
	if err != nil {
		return err
	}
	ctx, drain := context.WithCancel(context.Background())
	d.mu.Lock()
	d.drain, d.ended = drain, make(chan struct{})
	ended := d.ended
	d.mu.Unlock()
	go func() {
		err := w.Run(ctx)
		fields := map[string]any{"kind": "served"}
		if err != nil {
			fields["error"] = faultOf(err)
		}
		d.out.event(fields)
		close(ended)
	}()
	return nil
}

// stop drains the worker, or gives up the runs that are served.
func (d *driver) stop(context.Context, args) (any, error) {
	d.mu.Lock()
	drain, ended, s := d.drain, d.ended, d.server
	d.mu.Unlock()
	if drain != nil {
		drain()
		<-ended
	}
	if s != nil {
		err := s.client.Close()
		s.ends.Wait()
		return nil, err
	}
	return nil, nil
}

func turnFuncs(p *player, kind string, scripts map[string][]turnAct) map[string]pawl.TurnFunc {
	funcs := map[string]pawl.TurnFunc{}
	for name, acts := range scripts {
		funcs[name] = func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
			if limit := p.script.TimeoutMS; limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(limit)*time.Millisecond)
				defer cancel()
			}
			info := t.Assignment.GetTurn()
			r, err := p.turn(ctx, workerHost{t}, info, next(p, kind, name, acts))
			return pawl.Completion{
				Event: r.Event, Output: partsOf(r.Output), Messages: messagesOf(r.Messages), Usage: r.Usage.wire(),
				Artifacts: writesOf(r.Artifacts, info.GetArtifactSlots()), ConversationThroughStep: r.ConversationThroughStep,
			}, err
		}
	}
	return funcs
}

func toolFuncs(p *player, scripts map[string][]toolAct) map[string]pawl.ToolFunc {
	funcs := map[string]pawl.ToolFunc{}
	for name := range scripts {
		funcs[name] = func(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
			lease := s.Assignment.GetLease()
			return p.tool(ctx, name, toolCall{
				s.Assignment.GetPayloadJson(), lease.GetStep(), lease.GetAttempt(), s.IdempotencyKey(), s.Assignment.GetDeadline().AsTime(),
			})
		}
	}
	return funcs
}

// workerHost is a turn that was assigned.
type workerHost struct{ turn *pawl.Turn }

func (h workerHost) step(ctx context.Context, c stepCall) (string, error) {
	return h.turn.Step(ctx, c.Key, c.Tool, string(c.Payload))
}

func (h workerHost) set(context.Context, map[string]json.RawMessage) error {
	return &pawl.Failure{Code: "UNSUPPORTED", Message: "the Go worker writes artifacts with the completion"}
}

func (h workerHost) partial(ctx context.Context, text string) error { return h.turn.Output(ctx, text) }
