package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// These are the keys that the sidecar sets in the _meta object of a tool call: the idempotency key
// (docs/guides/tools-and-steps.md) and the trace context (MCP proposal SEP-414).
const (
	metaKey   = "dev.pawl/idempotency-key"
	metaTrace = "traceparent"
)

// Call is one call of a tool.
type Call struct {
	// Tool is the name of the tool on the server, without the name of the server.
	Tool string
	// Arguments is a JSON object. An empty value means no arguments.
	Arguments json.RawMessage
	// Digest is the [Tool.Digest] that the server's tool must have. "" means that it is not checked.
	Digest string
	// IdempotencyKey is sent in _meta. It is the same for every attempt of the call.
	IdempotencyKey string
	// Traceparent is the W3C trace context that is sent in _meta. "" means that the call belongs to no
	// trace.
	Traceparent string
	// Store stores a medium of a result that is larger than [Config.AnswerBytes], and returns its reference. If it is nil, the
	// result is refused with [CodeTooLarge].
	Store func(ctx context.Context, mediaType string, data []byte) (reference string, err error)
}

// Call calls a tool and returns its result as JSON. If the result has structured content, this is returned, or an object
// with both if there are contents other than texts. Otherwise one text is returned as a string, no content as null, and
// everything else as the list of contents that MCP defines. In a result that is larger than [Config.AnswerBytes], images, sounds and
// binary resources have a reference (blobRef) in place of their data, see [Call.Store]. The error is a [*Fault].
func (m *Client) Call(ctx context.Context, call Call) (json.RawMessage, error) {
	arguments := bytes.TrimSpace(call.Arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if _, err := strictjson.Object(arguments); err != nil {
		f := m.fault(CodeArguments, "the arguments are no JSON object: %v", err)
		f.Final = true
		return nil, f
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	meta := sdk.Meta{}
	if call.IdempotencyKey != "" {
		meta[metaKey] = call.IdempotencyKey
	}
	if call.Traceparent != "" {
		meta[metaTrace] = call.Traceparent
	}
	ctx = withSize(ctx)
	params := &sdk.CallToolParams{Meta: meta, Name: call.Tool, Arguments: json.RawMessage(arguments)}
	for {
		c, fresh, err := m.connect(ctx)
		if err != nil {
			return nil, err
		}
		if !c.beginCall() {
			continue // another call has dropped it
		}
		got, again, err := m.try(ctx, c, fresh, &call, params)
		c.leave()
		if !again || fresh {
			return got, err
		}
	}
}

// try makes a call on a connection. again reports whether the server no longer knows the connection and
// certainly has not executed the call.
func (m *Client) try(ctx context.Context, c *connection, fresh bool, call *Call, params *sdk.CallToolParams) (result json.RawMessage, again bool, err error) {
	now := c.tools
	if _, known := now.tools[params.Name]; !fresh && (call.Digest != "" || !known) { // it may be another or a new tool
		if now, err = m.list(ctx, c); err != nil {
			return nil, c.isOver(), err
		}
	}
	if err := m.checkOffer(&now, params.Name, call.Digest); err != nil {
		return nil, false, err
	}
	got, err := c.session.CallTool(ctx, params)
	if err == nil {
		result, err = m.result(ctx, got, call.Store)
		return result, false, err
	}
	if m.isConnectionLost(ctx, err) {
		m.drop(c)
		again = notSent(err)
	}
	return nil, again, m.outcome(ctx, c, err)
}

// checkOffer returns an error if the server does not offer a tool, or offers it with another digest.
func (m *Client) checkOffer(now *toolSet, name, digest string) error {
	tool, ok := now.tools[name]
	if ok && (digest == "" || digest == tool.Digest) {
		return nil
	}
	f := m.fault(CodeNoTool, "it has no tool %q", name)
	if ok {
		f = m.fault(CodeChanged, "the tool %s is not the one that the pack pins: its digest is %s, the pack has %s; compare them with pawl tools diff", name, tool.Digest, digest)
	}
	for _, r := range now.refusedTools {
		if r.Name == name {
			f = m.fault(CodeNoTool, "the tool %s is refused: %s", name, r.Reason)
		}
	}
	f.Final = true
	return f
}

// result returns the result of a call that the server answered.
func (m *Client) result(ctx context.Context, got *sdk.CallToolResult, store storeFunc) (json.RawMessage, error) {
	if got.NeedsInput() && len(got.InputRequests) == 0 {
		return nil, m.fault(CodeRefused, "it has no capacity for the call now")
	}
	if got.NeedsInput() {
		f := m.fault(CodeInput, "it asks for an input, which the sidecar does not give")
		f.Final = true
		return nil, f
	}
	if got.IsError {
		f := &Fault{Code: CodeTool, Message: clip(textOf(got.Content))}
		if f.Message == "" {
			f.Message = "the tool says no reason"
		}
		return nil, f
	}
	raw, err := valueOf(got, got.Content)
	if err == nil && int64(len(raw)) > m.cfg.AnswerBytes && store != nil {
		content, failure := storeMedia(ctx, got.Content, store)
		if failure != nil {
			f := m.fault(CodeNotStored, "the media of its answer cannot be stored: %v", failure)
			f.Unknown = true
			return nil, f
		}
		raw, err = valueOf(got, content)
	}
	if err != nil {
		f := m.fault(CodeInvalid, "%v", err)
		f.Unknown = true
		return nil, f
	}
	if int64(len(raw)) > m.cfg.AnswerBytes {
		f := m.fault(CodeTooLarge, "the answer has %d bytes, at most %d", len(raw), m.cfg.AnswerBytes)
		f.Unknown = true
		return nil, f
	}
	return raw, nil
}

// valueOf returns the value of a result. content are its contents as they are marshalled.
func valueOf(got *sdk.CallToolResult, content any) (json.RawMessage, error) {
	texts := len(got.Content) > 0
	for _, part := range got.Content {
		_, isText := part.(*sdk.TextContent)
		texts = texts && isText
	}
	switch {
	case got.StructuredContent != nil && (texts || len(got.Content) == 0):
		return structured(got)
	case got.StructuredContent != nil:
		return json.Marshal(struct {
			Content           any `json:"content"`
			StructuredContent any `json:"structuredContent"`
		}{content, got.StructuredContent})
	case texts && len(got.Content) == 1:
		return json.Marshal(textOf(got.Content))
	case len(got.Content) == 0:
		return json.RawMessage("null"), nil
	}
	return json.Marshal(content)
}

// structured returns the structured content of a result. Many servers repeat this content as a text. If the text has
// the same value, it is returned instead, because its numbers have all digits. The values that the SDK has decoded may
// have lost digits.
func structured(got *sdk.CallToolResult) (json.RawMessage, error) {
	text := []byte(textOf(got.Content))
	if repeated, err := strictjson.Value(text); err == nil && reflect.DeepEqual(roundNumbers(repeated), got.StructuredContent) {
		return strictjson.Compact(text)
	}
	return json.Marshal(got.StructuredContent)
}

// roundNumbers returns a JSON value in which numbers are doubles, as the SDK decodes them.
func roundNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		f, _ := strictjson.Double(v.String())
		return f
	case []any:
		for i := range v {
			v[i] = roundNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = roundNumbers(v[name])
		}
	}
	return value
}

// textOf returns the texts of a result, separated by line breaks.
func textOf(content []sdk.Content) string {
	var texts []string
	for _, part := range content {
		if t, ok := part.(*sdk.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}
