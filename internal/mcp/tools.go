package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/gowebpki/jcs"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool that a server offers.
type Tool struct {
	// Name is the server's name of the tool. A pack names the tool SERVER/NAME.
	Name string `json:"name"`
	// Digest identifies the name, the title, the description, the schemas and the annotations: sha256: and
	// the hash of their canonical JSON (RFC 8785).
	Digest      string `json:"digest"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// The schemas and the annotations are unchanged from the server. Only [Client.Repeatable] reads the annotations.
	InputSchema  any `json:"input_schema,omitempty"`
	OutputSchema any `json:"output_schema,omitempty"`
	Annotations  any `json:"annotations,omitempty"`
	// repeatable means that the annotations say that a second call does no harm, see [Client.Repeatable].
	repeatable bool
}

// RefusedTool is a tool of a server's list that calls cannot use.
type RefusedTool struct {
	// Name is the tool's name. It is quoted if it has characters that names must not have.
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// toolSet is one list of a server's tools.
type toolSet struct {
	// tools are the tools by their names on the server.
	tools        map[string]Tool
	refusedTools []RefusedTool
}

const (
	// maxTools limits the number of tools of a server. maxPages limits the number of pages of its list.
	maxTools = 1000
	maxPages = 100
)

// toolName matches the names that the MCP specification recommends. Such a name has no invisible character, and no
// character that looks like one of another alphabet.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)

// readWholeList makes the SDK read the list of a server's tools as one answer of at most limit bytes, and never keep it. The SDK
// would keep each page by its cursor until the connection ends, and a server may send another cursor each time. A server
// also says how long its list may be kept. The sidecar would then use an old list after the server has changed its tools.
func readWholeList(limit int64) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			asked, ok := req.GetParams().(*sdk.ListToolsParams)
			session, isClient := req.GetSession().(*sdk.ClientSession)
			if !ok || !isClient {
				return next(ctx, method, req)
			}
			params := *asked
			return pages(limit, func() (*sdk.ListToolsResult, error) {
				got, err := next(ctx, method, &sdk.ClientRequest[sdk.Params]{Session: session, Params: &params})
				list, ok := got.(*sdk.ListToolsResult)
				switch {
				case err != nil:
					return nil, err
				case !ok || list == nil:
					return nil, errors.New("its answer is no list of tools")
				}
				params.Cursor = list.NextCursor
				return list, nil
			})
		}
	}
}

// pages reads the pages of a list until a page has no next cursor, and returns their tools. The limit counts all bytes of
// a page, including parts that are not kept.
func pages(limit int64, next func() (*sdk.ListToolsResult, error)) (*sdk.ListToolsResult, error) {
	all := &sdk.ListToolsResult{Tools: []*sdk.Tool{}}
	var size int64
	for range maxPages {
		page, err := next()
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(page)
		if err != nil {
			return nil, err
		}
		size += int64(len(raw))
		all.Tools = append(all.Tools, page.Tools...)
		switch {
		case size > limit:
			return nil, fmt.Errorf("its list of tools has more than %d bytes", limit)
		case len(all.Tools) > maxTools:
			return nil, fmt.Errorf("it lists more than %d tools", maxTools)
		case page.NextCursor == "":
			return all, nil
		}
	}
	return nil, fmt.Errorf("its list of tools has more than %d pages", maxPages)
}

// list reads the tools of a server.
func list(ctx context.Context, session *sdk.ClientSession) (toolSet, error) {
	set := toolSet{tools: map[string]Tool{}}
	got, err := session.ListTools(ctx, &sdk.ListToolsParams{})
	if err != nil {
		return set, err
	}
	twice := map[string]bool{}
	for _, t := range got.Tools {
		set.add(t, twice)
	}
	return set, nil
}

// add adds a tool or refuses it. If two tools have the same name, both are refused, because it is not known which of them
// a call means.
func (set *toolSet) add(tool *sdk.Tool, twice map[string]bool) {
	digest, err := digestOf(tool)
	_, known := set.tools[tool.Name]
	switch {
	case err != nil:
		set.refuse(tool.Name, err.Error())
	case twice[tool.Name]: // the name is already refused
	case known:
		delete(set.tools, tool.Name)
		twice[tool.Name] = true
		set.refuse(tool.Name, "the server lists the name twice")
	default:
		set.tools[tool.Name] = Tool{
			Name: tool.Name, Digest: digest, Title: tool.Title, Description: tool.Description,
			InputSchema: tool.InputSchema, OutputSchema: tool.OutputSchema, Annotations: annotations(tool),
			repeatable: isRepeatable(tool.Annotations),
		}
	}
}

// annotations returns the annotations of a tool. It returns nil if there are none.
func annotations(tool *sdk.Tool) any {
	if tool.Annotations == nil {
		return nil
	}
	return tool.Annotations
}

// isRepeatable reports whether annotations say that a second call does no harm.
func isRepeatable(says *sdk.ToolAnnotations) bool {
	if says == nil {
		return false
	}
	destroys := says.DestructiveHint != nil && *says.DestructiveHint
	return says.IdempotentHint || says.ReadOnlyHint && !destroys
}

func (set *toolSet) refuse(name, reason string) {
	if !toolName.MatchString(name) {
		name = strconv.QuoteToASCII(fmt.Sprintf("%.128s", name))
	}
	set.refusedTools = append(set.refusedTools, RefusedTool{name, reason})
}

// sortedTools returns the tools by name.
func (set *toolSet) sortedTools() []Tool {
	out := make([]Tool, 0, len(set.tools))
	for _, name := range slices.Sorted(maps.Keys(set.tools)) {
		out = append(out, set.tools[name])
	}
	return out
}

// digestOf returns the digest of a tool, see [Tool.Digest].
func digestOf(tool *sdk.Tool) (string, error) {
	if !toolName.MatchString(tool.Name) {
		return "", errors.New("the name has other characters than A-Z, a-z, 0-9 and _ . / -, or not 1 to 128 of them")
	}
	raw, err := json.Marshal(map[string]any{
		"name": tool.Name, "title": tool.Title, "description": tool.Description,
		"input_schema": tool.InputSchema, "output_schema": tool.OutputSchema, "annotations": tool.Annotations,
	})
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil {
		return "", fmt.Errorf("has no canonical form: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
