package mcpserver

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// offer keeps the tools and prompts of a server equal to the registered packs.
type offer struct {
	session *session
	server  *sdk.Server

	mu sync.Mutex
	// tools and prompts map the name of each offered tool or prompt to the digest of its pack. Guarded by mu.
	tools, prompts map[string]string
}

// readsPacks are the methods whose answers depend on the registered packs.
var readsPacks = []string{"tools/list", "tools/call", "prompts/list", "prompts/get"}

// refresh reads the registered packs before their tools or prompts are used. For the call of one tool it reads only the
// pack of the tool.
func (o *offer) refresh(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		call, isCall := req.(*sdk.CallToolRequest)
		switch {
		case !slices.Contains(readsPacks, method) || isCall && slices.Contains(runTools, call.Params.Name):
		case isCall && !o.session.connected:
			if err := o.add(o.session.outgoing(ctx), call.Params.Name); err != nil {
				return nil, rpcError(err)
			}
		default:
			if err := o.update(o.session.outgoing(ctx)); err != nil {
				return nil, rpcError(err)
			}
		}
		return next(ctx, method, req)
	}
}

// follow reads the registered packs from time to time until ctx ends. If they have changed, the library notifies the
// client. An error is not reported: the next request of the client gets it.
func (o *offer) follow(ctx context.Context) {
	ticker := time.NewTicker(o.session.service.cfg.Refresh)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = o.update(o.session.outgoing(ctx))
		case <-ctx.Done():
			return
		}
	}
}

// add adds the tool with a name. The name of most tools says the pack; for another one, add reads all packs.
func (o *offer) add(ctx context.Context, name string) error {
	for _, id := range packsOfTool(name) {
		got, err := o.session.service.packs.GetPack(ctx, &pawlv1.GetPackRequest{Namespace: o.session.namespace, Pack: id})
		if isRefusal(err) {
			continue
		}
		if err != nil {
			return err
		}
		r, err := o.session.parse(ctx, got.GetPack())
		if err != nil || r == nil {
			continue
		}
		agents, err := agentsOf(*r)
		if at := slices.IndexFunc(agents, func(a *agent) bool { return a.name == name }); err == nil && at >= 0 {
			o.server.AddTool(agents[at].tool(), o.session.run(agents[at]))
			return nil
		}
	}
	return o.update(ctx)
}

// update adds and removes tools and prompts. Of two with one name the first is offered. A pack whose entries cannot be
// read is left out.
func (o *offer) update(ctx context.Context) error {
	packs, err := o.session.packs(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	tools, prompts := map[string]string{}, map[string]string{}
	for _, r := range packs {
		agents, err := agentsOf(r)
		if err != nil {
			continue
		}
		for _, a := range agents {
			if _, taken := tools[a.name]; taken || slices.Contains(runTools, a.name) {
				continue
			}
			if tools[a.name] = r.GetDigest(); o.tools[a.name] != r.GetDigest() {
				o.server.AddTool(a.tool(), o.session.run(a))
			}
		}
		for key := range r.parsed.Doc.Prompts {
			name := toolName(r.GetId() + separator + key)
			if _, taken := prompts[name]; taken {
				continue
			}
			if prompts[name] = r.GetDigest(); o.prompts[name] != r.GetDigest() {
				o.server.AddPrompt(promptOf(name, r, key), rendered(r, key))
			}
		}
	}
	o.server.RemoveTools(absent(o.tools, tools)...)
	o.server.RemovePrompts(absent(o.prompts, prompts)...)
	o.tools, o.prompts = tools, prompts
	return nil
}

// packsOfTool returns the ids of packs that may have the tool with a name, the likeliest first.
func packsOfTool(name string) (ids []string) {
	for at := 0; ; {
		next := strings.Index(name[at:], separator)
		if next < 0 {
			return append(ids, name)
		}
		at += next
		ids = append(ids, name[:at])
		at++
	}
}

// absent returns the names of before that are not in now.
func absent(before, now map[string]string) (names []string) {
	for name := range before {
		if _, ok := now[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}
