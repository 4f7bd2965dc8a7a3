package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/pack"
)

const (
	// maxName is the longest name of a tool that the APIs of models accept.
	maxName = 64
	// separator stands between the id of a pack and the key of an agent in the name of a tool.
	separator = "__"
	// messageArgument is the argument with the first message of a run. An agent with a variable of this name has no
	// such argument.
	messageArgument = "message"
)

// foreign matches the characters that the name of a tool must not have.
var foreign = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// agent is an entry of a pack that is offered as a tool.
type agent struct {
	name string
	pack *pawlv1.Pack
	// member is the key of the agent. "" means the entry of the workflow.
	member      string
	description string
	variables   []pack.DeclaredVariable
}

// registered is the default version of a pack.
type registered struct {
	*pawlv1.Pack
	parsed *pack.Pack
}

// packs returns the default versions of all packs. It leaves out a pack that this program cannot parse.
func (c *session) packs(ctx context.Context) ([]registered, error) {
	var all []registered
	req := &pawlv1.ListPacksRequest{Namespace: c.namespace}
	for {
		page, err := c.service.packs.ListPacks(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, listed := range page.GetPacks() {
			if !listed.GetIsDefault() {
				continue
			}
			r, err := c.parse(ctx, listed)
			if err != nil && status.Code(err) != codes.NotFound { // removed after it was listed
				return nil, err
			}
			if r != nil {
				all = append(all, *r)
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

// parse returns a registered pack with its content. It returns nil if this program cannot parse it.
func (c *session) parse(ctx context.Context, listed *pawlv1.Pack) (*registered, error) {
	p, err := c.service.packOf(ctx, c.namespace, listed)
	if err != nil || p == nil {
		return nil, err
	}
	return &registered{Pack: listed, parsed: p}, nil
}

// agentsOf returns the agents of a pack: the entry of its workflow, and each of its agents.
func agentsOf(r registered) (all []*agent, err error) {
	p := r.parsed
	if p.Doc.Workflow != nil {
		all = append(all, &agent{name: toolName(r.GetId()), pack: r.Pack, description: cmp.Or(p.Doc.Description, p.Doc.Name, p.ID)})
	}
	for _, member := range p.Agents() {
		a := &agent{name: toolName(r.GetId() + separator + member), pack: r.Pack, member: member}
		if p.Doc.Agents != nil && p.Doc.Agents.Members[member] != nil {
			a.description = p.Doc.Agents.Members[member].Description
		}
		if prompt := p.Doc.Prompts[member]; prompt != nil {
			a.description = cmp.Or(a.description, prompt.Description, prompt.Name)
		}
		all = append(all, a)
	}
	for _, a := range all {
		if a.variables, err = p.Variables(pack.Entry{Agent: a.member}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// packOf returns a registered pack. It returns nil if this program cannot parse it.
func (s *Service) packOf(ctx context.Context, namespace string, listed *pawlv1.Pack) (*pack.Pack, error) {
	s.mu.Lock()
	p, ok := s.parsed.Get(listed.GetDigest())
	s.mu.Unlock()
	if ok {
		return p, nil
	}
	got, err := s.packs.GetPack(ctx, &pawlv1.GetPackRequest{Namespace: namespace, Pack: listed.GetDigest(), IncludeContent: true})
	if err != nil {
		return nil, err
	}
	// A registered pack was valid when it was registered. If this version of the program does not accept its document,
	// its agents are not offered.
	p, _, err = pack.Load(got.GetContent(), pack.Options{Accepted: true, Limits: pack.Limits{Bytes: len(got.GetContent())}})
	if err != nil {
		p = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parsed.Put(listed.GetDigest(), p, 1)
	return p, nil
}

// toolName returns a name that the APIs of models accept. If the text is longer or has other characters, a digest
// keeps the names of two texts apart.
func toolName(text string) string {
	name := foreign.ReplaceAllString(text, "_")
	if name == text && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(text))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxName-len(suffix))] + suffix
}

// takesMessage reports whether the tool of the agent has the argument [messageArgument].
func (a *agent) takesMessage() bool {
	return !slices.ContainsFunc(a.variables, func(v pack.DeclaredVariable) bool { return v.Name == messageArgument })
}

// tool returns the agent as a tool. Its arguments are the variables of the run, and the first message.
func (a *agent) tool() *sdk.Tool {
	properties := map[string]any{}
	var required []string
	for _, v := range a.variables {
		property := map[string]any{}
		if slices.Contains([]string{"string", "number", "boolean", "object", "array"}, v.Type) {
			property["type"] = v.Type
		}
		if v.Description != "" {
			property["description"] = v.Description
		}
		if allowed := v.Enum(); len(allowed) > 0 {
			property["enum"] = allowed
		}
		// A run needs each required variable, also one with a default.
		if v.Required {
			required = append(required, v.Name)
		} else if v.Default != nil {
			property["default"] = v.Default
		}
		properties[v.Name] = property
	}
	if a.takesMessage() {
		properties[messageArgument] = map[string]any{"type": "string", "description": "What to say to the agent first. Optional."}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	// It is not known what the tools of an agent do, so clients get the most careful annotations.
	return &sdk.Tool{
		Name: a.name, Title: cmp.Or(a.member, a.pack.GetName()), Description: a.description, InputSchema: schema, OutputSchema: runSchema,
		Annotations: &sdk.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)},
	}
}
