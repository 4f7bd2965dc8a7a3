package a2a

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// agent is one agent that this service serves over A2A. It is a member (one of the named agents) of one pack.
type agent struct {
	// space is the agent's namespace. It comes from the tenant in the request, or else from the caller's rights. If
	// the caller has rights in every namespace, "" means the default namespace.
	space string
	pack  *pack.Pack
	// ref is the reference to the pack in the request. A new run is started with this reference.
	ref    string
	member string
}

// route returns the A2A tenant (the name of the agent in requests) of the agent's tasks: PACK/AGENT. It has no
// version of the pack, so a task can still be reached after another version is registered.
func (a *agent) route() string { return a.pack.ID + "/" + a.member }

// tenant returns the A2A tenant of the agent with its namespace. Callers of any namespace can use this name of the
// agent in requests.
func (a *agent) tenant() string { return validate.JoinTenant(a.space, a.route()) }

func (a *agent) def() *pack.AgentDef {
	if def := a.pack.Doc.Agents.Members[a.member]; def != nil {
		return def
	}
	return &pack.AgentDef{}
}

// agentOf returns the agent that a tenant names. The tenant has the form "[NAMESPACE:]PACK/AGENT", with or
// without a version of the pack. The caller's namespace is already that of the tenant, see [Service.caller]. A tenant
// without PACK/AGENT means the root agent.
func (s *Service) agentOf(ctx context.Context, caller runtime.Call, tenant string) (*agent, error) {
	in := readerFor(caller)
	_, named := validate.SplitTenant(tenant)
	if named == "" {
		return s.root(ctx, in)
	}
	ref, member, ok := strings.Cut(named, "/")
	if !ok || ref == "" || member == "" {
		return nil, failAt(invalidParams, "tenant", "%q is no [NAMESPACE:]PACK/AGENT", clip(tenant, 200))
	}
	return s.member(ctx, in, ref, member)
}

// member returns an agent of a pack. The member "" means the entry agent. The caller needs no right,
// because cards are public.
func (s *Service) member(ctx context.Context, in runtime.Call, ref, member string) (*agent, error) {
	p, err := s.cfg.Engine.PackNamed(ctx, in, ref)
	if err != nil {
		if r, ok := errors.AsType[*machine.Error](err); ok && r.Code == machine.CodeNotFound && r.Reason != "NAMESPACE_NOT_FOUND" {
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
	return &agent{space: in.Namespace, pack: p, ref: ref, member: member}, nil
}

// readerFor returns a call with only the right to read packs. It is limited to the namespaces of the caller.
func readerFor(caller runtime.Call) runtime.Call {
	return runtime.Call{Namespace: caller.Namespace, Principal: runtime.Principal{
		Subject: runtime.CardsName, Scopes: runtime.ScopeRunsRead, Namespaces: caller.Principal.Namespaces,
	}}
}

// root returns the root agent. This is the configured agent, which is in the default namespace. If none
// is configured, or in another namespace, it is the entry agent of the only pack in the namespace that
// has agents. If several packs have agents, there is no root agent.
func (s *Service) root(ctx context.Context, in runtime.Call) (*agent, error) {
	if s.cfg.Root != "" && (in.Namespace == "" || in.Namespace == runtime.DefaultNamespace) {
		ref, member, _ := strings.Cut(s.cfg.Root, "/")
		return s.member(ctx, in, ref, member)
	}
	var only *agent
	for token := ""; ; {
		page, err := s.cfg.Engine.ListPacks(ctx, in, token, 0)
		if err != nil {
			return nil, err
		}
		for i := range page.Packs {
			a, err := s.member(ctx, in, page.Packs[i].ID, "")
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
	return &machine.Error{
		Code: machine.CodeNotFound, Reason: "AGENT_NOT_FOUND", Field: "tenant",
		Message: "no registered pack has the agent " + clip(name, 200) + "; want PACK/AGENT",
	}
}
