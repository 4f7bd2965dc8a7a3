package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/conformance/endpoint"
)

// schemes are those of URLs of models in the sidecar's configuration, by form.
var schemes = map[endpoint.Form]string{endpoint.Messages: "anthropic+", endpoint.Responses: "responses+"}

// models is the sidecar's file of models: one for each case.
func (a *answers) models() string {
	var lines strings.Builder
	for _, c := range a.set.cases {
		fmt.Fprintf(&lines, "%s: %s%s#m\n", c.Name, schemes[c.Form], a.endpoint.Base(c, a.lang))
	}
	return lines.String()
}

// sidecarsOwn is the sidecar's executor; a worker serves the tools.
type sidecarsOwn struct {
	client *pawl.Client
	drain  context.CancelFunc
	ended  chan error
}

// ownExecutor starts the worker of the tools.
func (a *answers) ownExecutor(conn grpc.ClientConnInterface) (executor, error) {
	worker, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: conn, ID: "florist", AllowUnknown: true, Steps: 64, Tools: map[string]pawl.ToolFunc{"*": a.tool},
	})
	if err != nil {
		return nil, err
	}
	ctx, drain := context.WithCancel(context.Background())
	x := &sidecarsOwn{client: a.client, drain: drain, ended: make(chan error, 1)}
	go func() { x.ended <- worker.Run(ctx) }()
	return x, nil
}

func (x *sidecarsOwn) model(c *endpoint.Case) string { return c.Name }

func (x *sidecarsOwn) execution() pawlv1.Execution { return pawlv1.Execution_EXECUTION_SIDECAR }

func (x *sidecarsOwn) execute(ctx context.Context, _ *endpoint.Case, run string) error {
	_, err := x.client.Attach(run).Wait(ctx, pawlv1.WaitUntil_WAIT_UNTIL_TERMINAL)
	return err
}

func (x *sidecarsOwn) close() error {
	x.drain()
	return <-x.ended
}

// tool is every tool of the florist: it writes down that it was called.
func (a *answers) tool(_ context.Context, s *pawl.Step) (json.RawMessage, error) {
	lease, tool := s.Assignment.GetLease(), s.Assignment.GetLease().GetTool()
	line, err := json.Marshal(fields{
		"run": lease.GetRunId(), "tool": tool, "step": lease.GetStep(), "attempt": lease.GetAttempt(), "payload": json.RawMessage(s.Assignment.GetPayloadJson()),
	})
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(a.ledger, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	switch tool {
	case "broken":
		return nil, errors.New("the tool is broken")
	case "photo":
		return json.Marshal([]byte("\x89PNG\r\n\x1a\n")) // bytes, as Go writes them in JSON
	}
	return json.RawMessage(`{"ok":true}`), nil
}

// driverExecutor is the executor of a client, in the driver of its language.
type driverExecutor struct {
	*answers
	driver *driver
}

func (a *answers) newExecutor(lang language) (executor, error) {
	d, err := startDriver(lang, a.set.processes)
	if err != nil {
		return nil, err
	}
	r, err := d.call("reset", map[string]any{"address": a.sidecar.address(), "token": "", "ledger": a.ledger, "async": a.mode.async})
	if err == nil && r.Error != nil {
		err = fmt.Errorf("reset: %s", short(r.Error))
	}
	return &driverExecutor{a, d}, err
}

func (x *driverExecutor) model(*endpoint.Case) string { return "" }

func (x *driverExecutor) execution() pawlv1.Execution { return pawlv1.Execution_EXECUTION_CALLER }

// execute has the driver's verb `model` execute a run; test/conformance/README.md says what it does.
func (x *driverExecutor) execute(_ context.Context, c *endpoint.Case, run string) error {
	r, err := x.driver.call("model", map[string]any{
		"run_id": run, "form": string(c.Form), "base_url": x.endpoint.Base(c, x.lang), "model": "m", "serve": toolsOf(c),
	})
	if err == nil && r.Error != nil {
		err = fmt.Errorf("%s", short(r.Error))
	}
	return err
}

func (x *driverExecutor) close() error { return x.driver.kill() }
