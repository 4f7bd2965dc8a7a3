package mcpserver

import (
	"cmp"
	"context"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl/internal/prompt"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// promptOf returns a prompt of a pack as an MCP prompt. Its arguments are the variables that the prompt declares.
func promptOf(name string, r registered, key string) *sdk.Prompt {
	of := r.parsed.Doc.Prompts[key]
	p := &sdk.Prompt{Name: name, Title: of.Name, Description: cmp.Or(of.Description, of.Name)}
	for _, v := range of.Variables {
		p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: v.Name, Description: v.Description, Required: v.Required})
	}
	return p
}

// rendered returns the handler that renders a prompt. Values of other types than text are JSON, as in templates.
// Artifacts are empty, because there is no run.
func rendered(r registered, key string) sdk.PromptHandler {
	of := r.parsed.Doc.Prompts[key]
	return func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		variables := map[string]any{}
		var missing []string
		for _, v := range of.Variables {
			text, given := req.Params.Arguments[v.Name]
			switch {
			case given && (v.Type == "" || v.Type == "string"):
				variables[v.Name] = text
			case given:
				value, err := strictjson.Value([]byte(text))
				if err != nil {
					return nil, rpcError(badArgument("%s: want a %s as JSON: %v", v.Name, v.Type, err))
				}
				variables[v.Name] = value
			case v.Required:
				missing = append(missing, v.Name)
			case v.Default != nil:
				value, err := strictjson.Value(v.Default)
				if err != nil {
					return nil, rpcError(badArgument("%s: its default is no JSON: %v", v.Name, err))
				}
				variables[v.Name] = value
			}
		}
		if len(missing) > 0 {
			return nil, rpcError(badArgument("the prompt %s requires %s", req.Params.Name, strings.Join(missing, ", ")))
		}
		text, err := prompt.Render(of.SystemTemplate, prompt.Scope{Variables: variables, Fragments: r.parsed.Doc.Fragments})
		if err != nil {
			return nil, rpcError(badArgument("the prompt %s: %v", req.Params.Name, err))
		}
		return &sdk.GetPromptResult{Description: of.Description, Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}, nil
	}
}
