package godriver

import (
	"context"
	"maps"
	"sync"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// server serves runs by their names, by a client of its own.
type server struct {
	client  *pawl.Client
	serving pawl.Serving
	out     *output
	ends    sync.WaitGroup
}

// newServer makes what serves runs by a script. Turns of agents that run beside them, and tools of
// those, are for a worker.
func (d *driver) newServer(a args) (*server, error) {
	p := d.player(a.script)
	d.mu.Lock()
	conn := d.conn
	d.mu.Unlock()
	client, err := pawl.NewClient(pawl.Options{Conn: conn, RetryFor: retryTimeout, Timeout: retryTimeout})
	if err != nil {
		return nil, err
	}
	with := pawl.Serving{Prompts: turnFuncs(p, "agent ", a.Agents), Tools: toolFuncs(p, a.Tools), OnError: d.reportError}
	maps.Copy(with.Prompts, turnFuncs(p, "turn ", a.Turns))
	if len(a.Agents) > 0 {
		beside := a
		beside.Turns = nil
		if err := d.work(p, beside); err != nil {
			return nil, err
		}
	}
	return &server{client: client, serving: with, out: d.out}, nil
}

// reportError reports what went wrong in a function, or with its answer.
func (d *driver) reportError(err error) {
	d.out.event(joined(map[string]any{"kind": "error"}, faultOf(err)))
}

// serve begins to serve a run; an event tells how that ended.
func (d *driver) serve(_ context.Context, a args) (any, error) {
	d.mu.Lock()
	s := d.server
	d.mu.Unlock()
	request := startOf(a)
	request.Execution = pawlv1.Execution_EXECUTION_CALLER
	s.ends.Go(func() {
		var got *pawlv1.GetRunResponse
		var err error
		if a.Attach {
			got, err = s.client.Attach(a.RunID).Serve(context.Background(), s.serving)
		} else {
			// The run that was started with this id, found again by the call that starts runs.
			got, err = s.client.Run(context.Background(), request, s.serving)
		}
		fields := map[string]any{"kind": "served", "run": a.RunID}
		if err != nil {
			fields["error"] = faultOf(err)
		} else {
			fields["status"] = word(got.GetRun().GetStatus().Descriptor(), got.GetRun().GetStatus().Number())
		}
		s.out.event(fields)
	})
	return nil, nil
}
