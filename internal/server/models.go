package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/executor"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// readModels reads the endpoints of models and their keys. The error contains all faults, but no keys.
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

// endpoint reads a model with its key. The key is in a file or in the environment.
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
	m.Key = strings.TrimSpace(string(raw))
	if m.Key == "" {
		return fmt.Errorf("%s is empty", path)
	}
	return model.CheckKey(m.Key)
}

// executors execute the turns of runs with the execution SIDECAR. There are none if the configuration
// contains no model.
type executors struct {
	conn *grpc.ClientConn
	stop context.CancelFunc
	done sync.WaitGroup
}

// executing returns the secret with which the sidecar authenticates to itself. It returns "" if the
// sidecar executes no turns.
func executing(c config.Config) (secret string) {
	if len(c.Models) > 0 || c.ModelsFile != "" {
		secret = auth.NewSecret()
	}
	return secret
}

// execute starts an executor for each namespace.
func (a *app) execute() error {
	if a.own == "" {
		return nil
	}
	conn, err := a.server.Dial(grpc.WithPerRPCCredentials(output.Bearer(a.own)))
	if err != nil {
		return err
	}
	id := executor.WorkerID
	if a.cluster != nil {
		// Each node of a cluster executes turns of every partition, so its id must be unique.
		id += "@" + a.cluster.me.Address
	}
	ctx, stop := context.WithCancel(context.Background())
	a.executors = &executors{conn: conn, stop: stop}
	for _, ns := range a.opts.config.Served() {
		e, err := executor.New(executor.Config{
			Conn: conn, ID: id, Namespace: ns, Models: a.opts.models, Turns: a.opts.config.Limits.WorkerTurns, Grace: a.opts.config.DrainTimeout / 2,
			OnError: func(err error) {
				a.opts.log.Warn("executor turn failed", "namespace", ns, "error", err)
			},
		})
		if err != nil {
			a.executors.end()
			return err
		}
		a.executors.done.Go(func() {
			if err := e.Run(ctx); err != nil {
				a.opts.log.Error("executor stopped", "namespace", ns, "error", err)
			}
		})
	}
	return nil
}

// end stops the executors. They may finish their work within their grace period.
func (e *executors) end() {
	if e == nil {
		return
	}
	e.stop()
	e.done.Wait()
	_ = e.conn.Close() // no call is running on it
}
