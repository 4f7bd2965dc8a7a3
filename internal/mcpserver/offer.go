package mcpserver

import (
	"context"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// offer keeps the tools and prompts of a server equal to the registered packs.
type offer struct {
	session *session
	server  *sdk.Server

	mu sync.Mutex
	// tools and prompts are the digests of the packs of what is offered, by name. Guarded by mu.
	tools, prompts map[string]string
}

// readsPacks are the methods whose answers depend on the registered packs.
var readsPacks = []string{"tools/list", "tools/call", "prompts/list", "prompts/get"}

// refresh reads the registered packs before their tools or prompts are used. If they have changed, the library notifies
// clients that hold a connection.
func (o *offer) refresh(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if slices.Contains(readsPacks, method) {
			if err := o.update(o.session.call(ctx)); err != nil {
				return nil, rpcError(err)
			}
		}
		return next(ctx, method, req)
	}
}

// update adds and removes tools and prompts. Of two with one name the first is offered.
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
			return err
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

// absent returns the names of before that are not in now.
func absent(before, now map[string]string) (names []string) {
	for name := range before {
		if _, ok := now[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}
