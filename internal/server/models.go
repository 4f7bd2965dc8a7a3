package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/executor"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/mcp"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// readModels returns the configured models with their endpoints and API keys. Its error contains all
// faults, but no keys. If the file of models is faulty, it contains only the faults of this file.
func readModels(c config.Config, env config.Lookup) ([]*model.Endpoint, error) {
	r := modelReader{env: env, timeout: c.ModelTimeout, variables: map[string]string{}, byName: map[string]*model.Endpoint{}}
	for i, text := range c.Models {
		r.endpoint(fmt.Sprintf("model[%d]", i), text, "")
	}
	if c.ModelsFile != "" {
		entries, err := config.ReadModels(c.ModelsFile)
		if err != nil {
			return nil, err
		}
		for _, m := range entries {
			r.endpoint(m.At, m.Name+"="+m.URL, m.KeyFile)
		}
	}
	for i, text := range c.ModelKeys {
		if err := r.named(text); err != nil {
			r.fault(fmt.Sprintf("model_key[%d]", i), err)
		}
	}
	bound := c.Bindings()
	for _, key := range slices.Sorted(maps.Keys(bound)) {
		if name := bound[key]; r.byName[name] == nil {
			r.fault("providers["+key+"]", fmt.Errorf("no --model has the name %q", name))
		}
	}
	if len(r.faults) > 0 {
		return nil, &config.Error{Faults: r.faults}
	}
	return r.models, nil
}

// modelReader collects models and faults.
type modelReader struct {
	env     config.Lookup
	timeout time.Duration
	models  []*model.Endpoint
	byName  map[string]*model.Endpoint
	// variables maps an environment variable to the name of the model whose key it contains.
	variables map[string]string
	faults    []config.Fault
}

func (r *modelReader) fault(field string, err error) {
	r.faults = append(r.faults, config.Fault{Field: field, Message: err.Error()})
}

// endpoint adds one configured model to the result. It reads the model's API key from an environment
// variable, and from the file keyFile, which takes precedence.
func (r *modelReader) endpoint(field, text, keyFile string) {
	m, err := model.ParseEndpoint(text)
	if err != nil {
		r.fault(field, err)
		return
	}
	variable := model.KeyVariable(m.Name)
	if other := r.variables[variable]; other != "" {
		r.fault(field, fmt.Errorf("%s and %s have one variable for their keys, %s: give one another name", m.Name, other, variable))
		return
	}
	m.Key, _ = r.env(variable)
	m.Key = strings.TrimSpace(m.Key)
	if err := model.CheckKey(m.Key); err != nil {
		r.fault(variable, err)
	}
	m.Timeout, r.variables[variable], r.byName[m.Name] = r.timeout, m.Name, &m
	r.models = append(r.models, &m)
	if keyFile != "" {
		if err := readKeyFile(&m, keyFile); err != nil {
			r.fault(field+".key_file", err)
		}
	}
}

// named reads NAME=FILE, the key of a model.
func (r *modelReader) named(text string) error {
	name, path, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return errors.New("is no NAME=FILE")
	}
	m := r.byName[name]
	if m == nil {
		return fmt.Errorf("no --model has the name %q", name)
	}
	return readKeyFile(m, path)
}

func readKeyFile(m *model.Endpoint, path string) error {
	raw, err := secretfile.Read(path)
	if err != nil {
		return err
	}
	m.Key, m.KeyFile = strings.TrimSpace(string(raw)), path
	if m.Key == "" {
		return fmt.Errorf("%s is empty", path)
	}
	return model.CheckKey(m.Key)
}

// executors execute the turns of runs with the execution SIDECAR, and steps of tools of MCP servers.
// They exist only if the configuration contains a model or an MCP server.
type executors struct {
	conn *grpc.ClientConn
	stop context.CancelFunc
	done sync.WaitGroup
	// servers are the clients of the MCP servers whose tools are called, by name.
	servers map[string]*mcp.Client
}

// executing returns the secret with which the sidecar, as an executor of turns or tools, authenticates to its own
// server. Each call returns a new secret. If the sidecar executes neither turns nor tools, it returns "".
func executing(c config.Config) (secret string) {
	if models(c) || len(c.MCPServers) > 0 {
		secret = auth.NewSecret()
	}
	return secret
}

// models reports whether the configuration can contain a model that the sidecar itself calls.
func models(c config.Config) bool { return len(c.Models) > 0 || c.ModelsFile != "" }

// workerID returns the name of a worker of this sidecar. All nodes of a cluster execute work of every
// partition, so the name contains the node's address.
func (a *app) workerID(id string) string {
	if a.cluster != nil {
		id += "@" + a.cluster.self.Address
	}
	return id
}

// execute starts the executors of turns and steps for each namespace.
func (a *app) execute() error {
	if a.ownSecret == "" {
		return nil
	}
	conn, err := a.server.Dial(grpc.WithPerRPCCredentials(output.Bearer(a.ownSecret)))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	a.executors = &executors{conn: conn, stop: stop, servers: a.opts.mcp}
	if err := errors.Join(a.executeTurns(ctx), a.executeTools(ctx)); err != nil {
		a.executors.end()
		return err
	}
	return nil
}

// executeTurns starts an executor of turns for each namespace, if the configuration has models.
func (a *app) executeTurns(ctx context.Context) error {
	if !models(a.opts.config) {
		return nil
	}
	stopped := func(ns string, err error) { a.opts.log.Error("executor stopped", "namespace", ns, "error", err) }
	return a.serve(ctx, stopped, func(ns string) (runner, error) {
		return executor.New(executor.Config{
			Conn: a.executors.conn, ID: a.workerID(executor.WorkerID), Namespace: ns, Models: a.opts.models, Turns: a.opts.config.Limits.WorkerTurns,
			Grace:   a.opts.config.DrainTimeout / 2,
			OnError: func(err error) { a.opts.log.Warn("executor turn failed", "namespace", ns, "error", err) },
		})
	})
}

// runner works until its context ends.
type runner interface {
	Run(ctx context.Context) error
}

// serve creates and starts a runner, which executes turns or tools, for each namespace. When a runner
// ends with an error, serve calls stopped.
func (a *app) serve(ctx context.Context, stopped func(ns string, err error), create func(ns string) (runner, error)) error {
	for _, ns := range a.opts.config.Served() {
		r, err := create(ns)
		if err != nil {
			return err
		}
		a.executors.done.Go(func() {
			if err := r.Run(ctx); err != nil {
				stopped(ns, err)
			}
		})
	}
	return nil
}

// end stops the executors. Their running turns and steps may finish within the grace period.
func (e *executors) end() {
	if e == nil {
		return
	}
	e.stop()
	e.done.Wait()
	var closing sync.WaitGroup
	for _, s := range e.servers {
		closing.Go(s.Close)
	}
	closing.Wait()
	_ = e.conn.Close() // no call is running on it
}
