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

// agent is an A2A agent. It is one member of one pack.
type agent struct {
	// space is the agent's namespace. The caller names it or is limited to it. For a caller without a
	// limit, "" means the default namespace.
	space string
	pack  *pack.Pack
	// ref is the reference to the pack in the request. A new run is started with this reference.
	ref    string
	member string
}

// route returns the tenant of the agent's tasks. It contains the pack without its version, so that a
// task can still be reached after another version is registered.
func (a *agent) route() string { return a.pack.ID + "/" + a.member }

// tenant returns the name of the agent for callers of any namespace.
func (a *agent) tenant() string { return validate.JoinTenant(a.space, a.route()) }

func (a *agent) def() *pack.AgentDef {
	if def := a.pack.Doc.Agents.Members[a.member]; def != nil {
		return def
	}
	return &pack.AgentDef{}
}

// agentOf returns the agent that a tenant names. The tenant has the form "PACK/AGENT", with or without
// a version of the pack, and refers to the caller's namespace. "" means the root agent.
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

// readerFor returns a call that may only read packs. It has the namespaces of the caller.
func readerFor(caller runtime.Call) runtime.Call {
	return runtime.Call{Namespace: caller.Namespace, Principal: runtime.Principal{
		Subject: runtime.CardsName, Scopes: runtime.ScopeRunsRead, Namespaces: caller.Principal.Namespaces,
	}}
}

// root returns the root agent. This is the configured agent, which is in the default namespace. If none
// is configured, it is the entry agent of the only pack in the namespace that has agents.
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
