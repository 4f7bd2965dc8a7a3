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

// agentsGuest puts A2A before what a tenure runs; nil = it is off.
func agentsGuest[H a2a.Host](t *tenure) func(H) (grpcapi.Guest, error) {
	opts := t.opts
	if !opts.config.A2A {
		return nil
	}
	return func(host H) (grpcapi.Guest, error) {
		conf, err := agentsConfig(opts, t.house)
		if err != nil {
			return grpcapi.Guest{}, err
		}
		if opts.config.A2APush {
			conf.Push = pushes(t.house, t.box)
		}
		// The sidecar's own delegations are followed by streams all the same.
		conf.NoStreams = !opts.config.A2AStreaming
		service, err := a2a.New(conf, host)
		if err != nil {
			return grpcapi.Guest{}, err
		}
		return grpcapi.Guest{
			Desc: &a2apb.A2AService_ServiceDesc, Impl: service.GRPC(),
			HTTP: service.Handler(), Takes: a2a.Takes,
		}, nil
	}
}

// agentsElsewhere puts A2A before a server with a router: who calls is found out there, all else
// where the store is; nil = it is off.
func agentsElsewhere(opts options) func(*grpcapi.Server) (grpcapi.Guest, error) {
	if !opts.config.A2A {
		return nil
	}
	return func(host *grpcapi.Server) (grpcapi.Guest, error) {
		return grpcapi.Guest{
			Desc: &a2apb.A2AService_ServiceDesc, Impl: a2apb.UnimplementedA2AServiceServer{},
			HTTP: a2a.Front(opts.log, int(opts.config.Limits.MessageBytes), host.Known, host.Elsewhere()), Takes: a2a.Takes,
		}, nil
	}
}

// agentsHouse is the house as A2A asks it.
type agentsHouse struct{ *services.House }

// HandedOut implements [a2a.Engine].
func (a agentsHouse) HandedOut(s *machine.State) bool { return a.Work.HandedOut(s) }

func agentsConfig(opts options, rooms *services.House) (a2a.Config, error) {
	c := opts.config
	conf := a2a.Config{
		Engine: agentsHouse{rooms}, Log: opts.log, Root: rootAgent(c), URL: c.A2AURL, GRPCAddr: c.A2AGRPC,
		LenientVersion: c.A2ALenientVersion, RequiredExtensions: c.A2ARequire,
		MaxMessageBytes: int(c.Limits.MessageBytes),
		Execution: func() machine.Execution {
			if c.A2AExecution == "SIDECAR" || c.A2AExecution == "" && len(opts.models.All()) > 0 {
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

// rootAgent is the configured one, else the first pack file's that has agents. A
// file that cannot be read is reported when it is registered.
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
