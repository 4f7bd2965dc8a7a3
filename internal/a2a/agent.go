package a2a

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// agent is one member of one pack.
type agent struct {
	pack *pack.Pack
	// ref is how the pack was named: what a new run is started with.
	ref    string
	member string
}

// route is the tenant of the agent's tasks: the pack without its version, so that
// a task outlives the registration of another one.
func (a *agent) route() string { return a.pack.ID + "/" + a.member }

func (a *agent) def() *pack.AgentDef {
	if def := a.pack.Doc.Agents.Members[a.member]; def != nil {
		return def
	}
	return &pack.AgentDef{}
}

// agentOf finds the agent that a tenant names: "PACK/AGENT", the pack with or
// without a version; "" is the root.
func (s *Service) agentOf(ctx context.Context, tenant string) (*agent, error) {
	if tenant == "" {
		return s.root(ctx)
	}
	ref, member, ok := strings.Cut(tenant, "/")
	if !ok || ref == "" || member == "" {
		return nil, failAt(invalidParams, "tenant", "%q is no PACK/AGENT", clip(tenant, 200))
	}
	return s.member(ctx, ref, member)
}

// member looks a pack's agent up; "" is its entry agent. Packs are found whoever
// asks: cards are public.
func (s *Service) member(ctx context.Context, ref, member string) (*agent, error) {
	p, err := s.cfg.Engine.PackNamed(ctx, reader, ref)
	if err != nil {
		if r, ok := errors.AsType[*machine.Refusal](err); ok && r.Code == machine.CodeNotFound {
			return nil, noAgent(ref + "/" + member)
		}
		return nil, err
	}
	if member == "" && p.Doc.Agents != nil {
		member = p.Doc.Agents.Entry
	}
	if !slices.Contains(p.Members(), member) {
		return nil, noAgent(ref + "/" + member)
	}
	return &agent{pack: p, ref: ref, member: member}, nil
}

// reader may look at packs and nothing else.
var reader = runtime.Call{Principal: runtime.Principal{Name: "a2a", Scopes: runtime.ScopeRunsRead}}

// root is the configured agent, or the entry agent of the only pack that has any.
func (s *Service) root(ctx context.Context) (*agent, error) {
	if s.cfg.Root != "" {
		ref, member, _ := strings.Cut(s.cfg.Root, "/")
		return s.member(ctx, ref, member)
	}
	var only *agent
	for token := ""; ; {
		page, err := s.cfg.Engine.ListPacks(ctx, reader, token, 0)
		if err != nil {
			return nil, err
		}
		for i := range page.Packs {
			a, err := s.member(ctx, page.Packs[i].ID, "")
			if errors.As(err, new(*Error)) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if only != nil && only.pack.ID != a.pack.ID {
				return nil, noAgent("(root)")
			}
			only = a
		}
		if token = page.NextPage; token == "" {
			break
		}
	}
	if only == nil {
		return nil, noAgent("(root)")
	}
	return only, nil
}

func noAgent(name string) error {
	return &machine.Refusal{
		Code: machine.CodeNotFound, Reason: "AGENT_NOT_FOUND", Field: "tenant",
		Message: "no registered pack has the agent " + clip(name, 200) + "; want PACK/AGENT",
	}
}
