package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/executor"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// readModels reads the endpoints of models and their keys. All faults are told at once,
// none of them with a key.
func readModels(c config.Config, env config.Lookup) ([]*model.Endpoint, error) {
	var models []*model.Endpoint
	var faults []config.Fault
	add := func(field string, err error) {
		faults = append(faults, config.Fault{Field: field, Message: err.Error()})
	}
	keys := map[string]string{}
	byName := map[string]*model.Endpoint{}
	for i, text := range c.Models {
		field := fmt.Sprintf("model[%d]", i)
		m, err := model.ParseEndpoint(text)
		if err != nil {
			add(field, err)
			continue
		}
		variable := model.KeyVariable(m.Name)
		if other := keys[variable]; other != "" {
			add(field, fmt.Errorf("%s and %s have one variable for their keys, %s: give one another name", m.Name, other, variable))
			continue
		}
		m.Key, _ = env(variable)
		m.Key = strings.TrimSpace(m.Key)
		if err := model.CheckKey(m.Key); err != nil {
			add(variable, err)
		}
		m.Timeout, keys[variable], byName[m.Name] = c.ModelTimeout, m.Name, &m
		models = append(models, &m)
	}
	for i, text := range c.ModelKeys {
		if err := readModelKey(text, byName); err != nil {
			add(fmt.Sprintf("model_key[%d]", i), err)
		}
	}
	if len(faults) > 0 {
		return nil, &config.Error{Faults: faults}
	}
	return models, nil
}

// readModelKey reads the file of one key.
func readModelKey(text string, models map[string]*model.Endpoint) error {
	name, path, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return errors.New("is no NAME=FILE")
	}
	m := models[name]
	if m == nil {
		return fmt.Errorf("no --model has the name %q", name)
	}
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

// executors execute the runs of the execution SIDECAR; there are none without models.
type executors struct {
	conn *grpc.ClientConn
	stop context.CancelFunc
	done sync.WaitGroup
}

// executing makes what the sidecar proves to itself that it is the sidecar.
func executing(models []*model.Endpoint) (secret string) {
	if len(models) > 0 {
		secret = door.NewSecret()
	}
	return secret
}

// execute starts an executor for each namespace.
func (a *app) execute() error {
	if len(a.models) == 0 {
		return nil
	}
	conn, err := a.server.Dial(grpc.WithPerRPCCredentials(cli.Bearer(a.own)))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	a.executors = &executors{conn: conn, stop: stop}
	for _, ns := range a.engine.Namespaces() {
		e, err := executor.New(executor.Config{
			Conn: conn, Namespace: ns, Models: a.models, Turns: a.opts.config.Limits.WorkerTurns, Grace: a.opts.config.DrainTimeout / 2,
			OnError: func(err error) {
				a.opts.log.Warn("a turn failed that the sidecar executes", "namespace", ns, "error", err)
			},
		})
		if err != nil {
			a.executors.end()
			return err
		}
		a.executors.done.Go(func() {
			if err := e.Run(ctx); err != nil {
				a.opts.log.Error("the sidecar's executor ended", "namespace", ns, "error", err)
			}
		})
	}
	return nil
}

// end lets executors finish what they have, within their grace.
func (e *executors) end() {
	if e == nil {
		return
	}
	e.stop()
	e.done.Wait()
	_ = e.conn.Close() // nothing is under way on it
}
