package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// The names of the protocol bindings in cards.
const (
	bindingGRPC    = "GRPC"
	bindingJSONRPC = "JSONRPC"
	bindingHTTP    = "HTTP+JSON"
)

// AgentURI is an extension with details about an agent for authenticated callers. In the extended card,
// its params are the pack, the version, the digest, and the variables that a message must contain.
const AgentURI = "https://pawl.dev/a2a/agent/v1"

// textPlain is the media type of agents that do not declare one (PromptPack RFC 0007).
const textPlain = "text/plain"

// card returns the A2A card of an agent. The pack's prompt with the agent's name gives the name and the description
// (PromptPack RFC 0007 and RFC 0011).
func (s *Service) card(a *agent) *a2apb.AgentCard {
	prompt := a.pack.Doc.Prompts[a.member]
	def := a.def()
	input, output := modes(def.InputModes), modes(def.OutputModes)
	skill := &a2apb.AgentSkill{
		Id: a.member, Name: prompt.Name, Description: firstOf(def.Description, prompt.Description, prompt.Name),
		Tags: def.Tags, InputModes: input, OutputModes: output,
	}
	if len(skill.Tags) == 0 {
		// The protocol requires at least one tag. The id of the pack shows which agents belong together.
		skill.Tags = []string{a.pack.ID}
	}
	card := &a2apb.AgentCard{
		Name: prompt.Name, Description: firstOf(prompt.Description, def.Description, prompt.Name),
		Version: firstOf(prompt.Version, a.pack.Version), SupportedInterfaces: s.interfaces(a),
		DefaultInputModes: input, DefaultOutputModes: output, Skills: []*a2apb.AgentSkill{skill},
		Capabilities: &a2apb.AgentCapabilities{
			Streaming: new(!s.cfg.NoStreams), PushNotifications: new(s.cfg.Push != nil),
			ExtendedAgentCard: new(s.authenticates()), Extensions: s.extensions(),
		},
	}
	s.secure(card)
	return card
}

func firstOf(values ...string) string {
	i := slices.IndexFunc(values, func(v string) bool { return v != "" })
	return values[max(i, 0)]
}

func modes(declared []string) []string {
	if len(declared) == 0 {
		return []string{textPlain}
	}
	return declared
}

func (s *Service) extensions() []*a2apb.AgentExtension {
	texts := map[string]string{
		protocol.DelegationURI: "A run of another sidecar delegates: its run, step, attempt, depth, remaining wall time and trace context are in the message's metadata.",
		protocol.IdempotentURI: "The same message sent again is the same task.",
		protocol.ApprovalURI:   "A call that a person has to approve is asked about, and decided, by a data part with this key.",
	}
	var out []*a2apb.AgentExtension
	for _, uri := range Extensions {
		out = append(out, &a2apb.AgentExtension{Uri: uri, Description: texts[uri], Required: slices.Contains(s.cfg.RequiredExtensions, uri)})
	}
	return out
}

// interfaces returns the interfaces at which the agent is served. The HTTP interfaces come first.
func (s *Service) interfaces(a *agent) []*a2apb.AgentInterface {
	var out []*a2apb.AgentInterface
	if base := s.baseURL(); base != "" {
		at := base + "/a2a/" + validate.JoinTenant(a.space, url.PathEscape(a.pack.ID)+"/"+url.PathEscape(a.member))
		for _, binding := range []string{bindingJSONRPC, bindingHTTP} {
			out = append(out, &a2apb.AgentInterface{Url: at, ProtocolBinding: binding, ProtocolVersion: protocol.ProtocolVersion})
		}
	}
	if addr := s.grpcAddr(); addr != "" {
		out = append(out, &a2apb.AgentInterface{Url: addr, ProtocolBinding: bindingGRPC, ProtocolVersion: protocol.ProtocolVersion, Tenant: a.tenant()})
	}
	return out
}

// baseURL returns the base URL of the HTTP bindings, or "" if they are not served.
func (s *Service) baseURL() string {
	if s.host.HTTPAddr() == "" {
		return ""
	}
	if s.cfg.URL != "" {
		return strings.TrimSuffix(s.cfg.URL, "/")
	}
	scheme := "http://"
	if tls, _, _ := s.host.Secured(); tls {
		scheme = "https://"
	}
	return scheme + reachable(s.host.HTTPAddr())
}

// grpcAddr returns the address of the gRPC port. If only the public URL is configured, it uses the host
// of this URL.
func (s *Service) grpcAddr() string {
	bound := s.host.Addr()
	if bound == "" || s.cfg.GRPCAddr != "" {
		return s.cfg.GRPCAddr
	}
	public, err := url.Parse(s.cfg.URL)
	if err == nil && public.Hostname() != "" {
		if _, port, err := net.SplitHostPort(bound); err == nil {
			return net.JoinHostPort(public.Hostname(), port)
		}
	}
	return reachable(bound)
}

// reachable returns the address under which clients can reach a bound address. If the bound address is
// the unspecified address (0.0.0.0 or ::), it is replaced by the host name of this machine.
func reachable(bound string) string {
	host, port, err := net.SplitHostPort(bound)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return bound
	}
	name, err := os.Hostname()
	if err != nil {
		return bound
	}
	return net.JoinHostPort(name, port)
}

func (s *Service) authenticates() bool {
	_, token, certificate := s.host.Secured()
	return token || certificate
}

// secure adds the configured security schemes to a card. If tokens and certificates are both configured,
// the card requires both.
func (s *Service) secure(card *a2apb.AgentCard) {
	_, token, certificate := s.host.Secured()
	requirement := &a2apb.SecurityRequirement{Schemes: map[string]*a2apb.StringList{}}
	card.SecuritySchemes = map[string]*a2apb.SecurityScheme{}
	if token {
		card.SecuritySchemes["bearer"] = &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_HttpAuthSecurityScheme{
			HttpAuthSecurityScheme: &a2apb.HTTPAuthSecurityScheme{Scheme: "Bearer", Description: "A token of this sidecar."},
		}}
		requirement.Schemes["bearer"] = &a2apb.StringList{}
	}
	if certificate {
		card.SecuritySchemes["mtls"] = &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_MtlsSecurityScheme{
			MtlsSecurityScheme: &a2apb.MutualTlsSecurityScheme{Description: "A client certificate."},
		}}
		requirement.Schemes["mtls"] = &a2apb.StringList{}
	}
	if len(requirement.GetSchemes()) > 0 {
		card.SecurityRequirements = []*a2apb.SecurityRequirement{requirement}
	}
}

// extendedCard implements GetExtendedAgentCard. It returns the card with details for callers that may
// use the agent.
func (s *Service) extendedCard(ctx context.Context, req *a2apb.GetExtendedAgentCardRequest) (*a2apb.AgentCard, error) {
	if _, err := s.negotiate(ctx); err != nil {
		return nil, err
	}
	a, err := s.agentOf(ctx, s.caller(ctx, req.GetTenant()), req.GetTenant())
	if err != nil {
		return nil, err
	}
	if !s.authenticates() {
		return nil, fail(unsupportedOperation, "callers are not authenticated here, so there is only the public card")
	}
	card := s.card(a)
	params, err := agentParams(a)
	if err != nil {
		return nil, err
	}
	card.Capabilities.Extensions = append(card.Capabilities.Extensions, &a2apb.AgentExtension{
		Uri: AgentURI, Description: "Where the agent comes from and which variables a message has to give.", Params: params,
	})
	return card, s.sign(card)
}

// agentParams returns the params of the extension [AgentURI].
func agentParams(a *agent) (*structpb.Struct, error) {
	declared, err := a.pack.Variables(pack.Entry{Agent: a.member})
	if err != nil {
		return nil, err
	}
	variables := []any{}
	for _, d := range declared {
		v := map[string]any{"name": d.Name, "type": d.Type, "required": d.Required}
		if d.Description != "" {
			v["description"] = d.Description
		}
		if d.Default != nil {
			v["default"] = d.Default
		}
		variables = append(variables, v)
	}
	raw, err := json.Marshal(map[string]any{
		"pack": a.pack.ID, "version": a.pack.Version, "digest": a.pack.Digest, "variables": variables,
	})
	if err != nil {
		return nil, fmt.Errorf("a2a: extended card: %w", err)
	}
	return protocol.ObjectToProto(raw), nil
}

// sign signs a card if a key is configured.
func (s *Service) sign(card *a2apb.AgentCard) error {
	if s.cfg.CardKey == nil {
		return nil
	}
	signature, err := s.cfg.CardKey.sign(card)
	if err != nil {
		return fmt.Errorf("a2a: sign the card: %w", err)
	}
	card.Signatures = []*a2apb.AgentCardSignature{signature}
	return nil
}
