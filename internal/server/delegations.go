package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/a2a/client"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/secretfile"
	"github.com/pawl-dev/pawl/internal/services"
)

// localBuffer is the buffer size of the in-process connection to the agents of this sidecar's own
// packs, in bytes.
const localBuffer = 256 << 10

// delegations finds the agents that runs delegate to. Agents of other sidecars are called over A2A.
// Members of the run's own pack are called through the same A2A service, over a connection inside the
// process.
type delegations struct {
	service     *a2a.Service
	directory   directory
	local       *grpc.Server
	pipe        *bufconn.Listener
	conn        *grpc.ClientConn
	serveErrors chan error
}

// newDelegations returns what the sidecar needs to delegate work: an in-process A2A service for members of a run's
// own pack, and the directory of the agents.
func newDelegations(opts options, remotes map[string]client.Remote, engine *services.Runtime) (*delegations, error) {
	conf, err := agentsConfig(opts, engine)
	if err != nil {
		return nil, err
	}
	conf.InProcess = true
	service, err := a2a.New(conf, inProcessHost{})
	if err != nil {
		return nil, err
	}
	d := &delegations{
		service: service,
		local:   grpc.NewServer(grpc.MaxRecvMsgSize(conf.MaxMessageBytes)), pipe: bufconn.Listen(localBuffer), serveErrors: make(chan error, 1),
	}
	a2apb.RegisterA2AServiceServer(d.local, service.GRPC())
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return d.pipe.DialContext(ctx) }
	d.conn, err = grpc.NewClient("passthrough:within", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	d.directory = directory{agents: client.NewDirectory(remotes, d.conn, opts.config.A2AURL), name: engine.NamespaceName}
	return d, nil
}

// run runs the outbox until ctx ends. Meanwhile it serves the agents of this sidecar's own packs.
func (d *delegations) run(ctx context.Context, box *delivery.Outbox) error {
	go func() { d.serveErrors <- d.local.Serve(d.pipe) }()
	err := box.Run(ctx)
	d.local.Stop()
	served := <-d.serveErrors
	if errors.Is(served, grpc.ErrServerStopped) {
		// The server was stopped before Serve had begun, which is no error.
		served = nil
	}
	return errors.Join(err, served, d.conn.Close())
}

// directory adapts the client package's directory of agents to [delivery.Directory].
type directory struct {
	agents *client.Directory
	// name returns the name of the namespace with a number.
	name func(uint32) string
}

// Peer returns the connection to the agent of a delegation. A member of the run's own pack is found in
// the namespace of the run.
func (d directory) Peer(ctx context.Context, del *machine.Delegation) (delivery.Peer, string, error) {
	found, card, err := d.agents.Peer(ctx, del, spaceOf(d.name(del.Row.Namespace)))
	if err != nil {
		return nil, card, err
	}
	return found, card, nil
}

// local reports whether an agent is a member of its run's own pack and is called inside this process,
// because no other address is configured. If A2A is off, no delegation is sent, and only the
// configuration counts.
func (t *partition) local(namespace uint32, pack, agent string) bool {
	space := spaceOf(t.runtime.NamespaceName(namespace))
	if t.sends == nil {
		return client.Named(t.files.remotes, space, pack, agent) == ""
	}
	return t.sends.directory.agents.Local(space, pack, agent)
}

// spaceOf returns a namespace in the form in which names of agents contain it. For the default
// namespace this is "".
func spaceOf(name string) string {
	if name == runtime.DefaultNamespace {
		return ""
	}
	return name
}

// readRemotes returns the configured agents, with the tokens and certificates from their files. Its error contains all
// faults.
func readRemotes(agents map[string]config.Agent) (map[string]client.Remote, error) {
	var faults fileFaults
	out := make(map[string]client.Remote, len(agents))
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		agent, at := agents[name], "agents["+name+"]"
		remote := client.Remote{Card: agent.Card, Allow: agent.Allow}
		if agent.TokenFile != "" {
			raw, err := secretfile.Read(agent.TokenFile)
			if remote.Token = strings.TrimSpace(string(raw)); err == nil && remote.Token == "" {
				err = fmt.Errorf("%s is empty", agent.TokenFile)
			}
			faults.add(at+".token_file", err)
		}
		if agent.CA != "" {
			raw, err := secretfile.ReadTrusted(agent.CA)
			remote.CA = x509.NewCertPool()
			if err == nil && !remote.CA.AppendCertsFromPEM(raw) {
				err = fmt.Errorf("%s has no certificate", agent.CA)
			}
			faults.add(at+".ca", err)
		}
		if agent.Cert != "" {
			pair, err := secretfile.ReadKeyPair(agent.Cert, agent.Key)
			remote.Certificate = &pair
			faults.add(at+".cert", err)
		}
		out[name] = remote
	}
	return out, faults.err()
}

// inProcessHost is the host of the A2A service through which runs call members of their own pack. Its
// only caller is the sidecar itself, which starts, reads and cancels tasks. Another caller that answers
// a member's question needs rights of its own.
type inProcessHost struct{}

func (inProcessHost) Principal(context.Context) runtime.Principal {
	return runtime.Principal{Subject: runtime.OwnName, Scopes: runtime.ScopeRunsRead | runtime.ScopeRunsWrite}
}

// Admit is part of the interface of a host of the A2A service. It is never called, because this host
// does not serve HTTP.
func (inProcessHost) Admit(*http.Request, string) (context.Context, error) {
	return nil, errors.New("there is no HTTP within a sidecar")
}

// Completed does nothing. Actions of the sidecar itself are recorded in the journal and not in the
// audit log.
func (inProcessHost) Completed(context.Context, string, any, error) {}

// CheckNamespace permits every request. A run delegates only in its own namespace, and other code
// limits its delegations.
func (inProcessHost) CheckNamespace(context.Context, string, any) error { return nil }

func (inProcessHost) AcquireWaitSlot(ctx context.Context, _, _ string) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

func (inProcessHost) Addr() string                            { return "" }
func (inProcessHost) HTTPAddr() string                        { return "" }
func (inProcessHost) Secured() (tls, token, certificate bool) { return false, false, false }
