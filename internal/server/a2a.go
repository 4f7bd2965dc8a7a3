package server

import (
	"os"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
)

// a2aPlugin returns a function that creates the plugin for the A2A protocol, which belongs to the
// services of a partition. It returns nil if A2A is off.
func a2aPlugin[H a2a.Host](t *partition) func(H) (grpcapi.Plugin, error) {
	opts := t.opts
	if !opts.config.A2A {
		return nil
	}
	return func(host H) (grpcapi.Plugin, error) {
		conf, err := agentsConfig(opts, t.runtime)
		if err != nil {
			return grpcapi.Plugin{}, err
		}
		if opts.config.A2APush {
			conf.Push = pushes(t.runtime, t.box)
		}
		// NoStreams is only about A2A callers. The sidecar's own delegations always use streams.
		conf.NoStreams = !opts.config.A2AStreaming
		service, err := a2a.New(conf, host)
		if err != nil {
			return grpcapi.Plugin{}, err
		}
		return grpcapi.Plugin{
			Desc: &a2apb.A2AService_ServiceDesc, Impl: service.GRPC(),
			HTTP: service.Handler(), Matches: a2a.MatchesPath,
		}, nil
	}
}

// routedA2APlugin returns a function that creates the plugin for the A2A protocol for the server of a
// node in a cluster. It returns nil if A2A is off. This plugin only authenticates the callers. The node
// that owns the partition does everything else.
func routedA2APlugin(opts options) func(*grpcapi.Server) (grpcapi.Plugin, error) {
	if !opts.config.A2A {
		return nil
	}
	return func(host *grpcapi.Server) (grpcapi.Plugin, error) {
		return grpcapi.Plugin{
			Desc: &a2apb.A2AService_ServiceDesc, Impl: a2apb.UnimplementedA2AServiceServer{},
			HTTP: a2a.Front(opts.log, int(opts.config.Limits.MessageBytes), host.Known, host.ForwardingHandler()), Matches: a2a.MatchesPath,
		}, nil
	}
}

// agentsConfig returns the configuration of the A2A service for the sidecar's settings.
func agentsConfig(opts options, engine *services.Runtime) (a2a.Config, error) {
	c := opts.config
	conf := a2a.Config{
		Engine: engine, Log: opts.log, Root: rootAgent(c), URL: c.A2AURL, GRPCAddr: c.A2AGRPC,
		LenientVersion: c.A2ALenientVersion, RequiredExtensions: c.A2ARequire,
		MaxMessageBytes: int(c.Limits.MessageBytes),
		Execution: func() machine.Execution {
			if c.A2AExecution == "SIDECAR" || c.A2AExecution == "" && len(opts.models.Endpoints()) > 0 {
				return machine.Sidecar
			}
			return machine.Workers
		},
	}
	var err error
	if c.A2ACardKey != "" {
		conf.CardKey, err = a2a.ReadCardKey(c.A2ACardKey)
	}
	return conf, err
}

// rootAgent returns the pack id of the root agent. It is the configured one, or else the id of the
// first configured pack that has agents. rootAgent ignores a file that cannot be read, because the
// registration of the file reports the error.
func rootAgent(c config.Config) string {
	if c.A2ARoot != "" {
		return c.A2ARoot
	}
	for _, path := range c.Packs {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		loaded, _, err := pack.Load(content, pack.Options{Limits: pack.Limits{Bytes: int(c.Limits.PackBytes)}})
		if err == nil && loaded != nil && loaded.Doc.Agents != nil {
			return loaded.ID
		}
	}
	return ""
}
