package script

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// writes converts a script's values to artifact writes, ordered by name. A string is the text of a text
// artifact, a JSON string for a JSON artifact, or the bytes in base64 for any other artifact. Every
// other value is written as JSON.
func writes(values map[string]any, types map[string]string) ([]*pawlv1.ArtifactWrite, error) {
	var out []*pawlv1.ArtifactWrite
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, err := artifactValue(values[name], types[name])
		if err != nil {
			return nil, fmt.Errorf("artifacts[%s]: %w", name, err)
		}
		out = append(out, &pawlv1.ArtifactWrite{Name: name, Value: value})
	}
	return out, nil
}

// artifactValue converts a value of the script to an artifact of the media type. Bytes are written in base64.
func artifactValue(value any, mediaType string) (*pawlv1.ArtifactValue, error) {
	text, isText := value.(string)
	switch {
	case isText && (mediaType == "" || strings.HasPrefix(strings.ToLower(mediaType), "text/")):
		return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: text}}, nil
	case isText && !isJSON(mediaType):
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s is written in base64: %w", mediaType, err)
		}
		return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Data{Data: raw}}, nil
	}
	raw, err := encode(value)
	if err != nil {
		return nil, err
	}
	return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: raw}}, nil
}

func isJSON(mediaType string) bool {
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

// encode returns compact JSON without escaping for HTML.
func encode(value any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// Parts converts a text, or any other value as JSON, to message parts. It returns no parts for nil and
// for the empty text.
func Parts(value any) ([]*pawlv1.Part, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		if value == "" {
			return nil, nil
		}
		return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: value}}}, nil
	}
	raw, err := encode(value)
	if err != nil {
		return nil, err
	}
	return []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: raw}}}, nil
}

// fault returns the error in the recorded result of a step that failed. The result is the message, or {code,
// message}.
func (s *Step) fault() *pawlv1.Fault {
	f := &pawlv1.Fault{Code: "tool_error"}
	switch result := s.Result.(type) {
	case nil:
	case string:
		f.Message = result
	case map[string]any:
		if code, ok := result["code"].(string); ok && code != "" {
			f.Code = code
		}
		f.Message, _ = result["message"].(string)
	default:
		f.Message, _ = encode(result)
	}
	return f
}

func (f *Fail) fault() *pawlv1.Fault {
	if f.Code == "" {
		return &pawlv1.Fault{Code: "turn_failed", Message: f.Message}
	}
	return &pawlv1.Fault{Code: f.Code, Message: f.Message}
}

func (u *Usage) proto() *pawlv1.Usage {
	if u == nil {
		return nil
	}
	return &pawlv1.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CostMicroUsd: int64(u.CostUSD*1e6 + 0.5), ToolCalls: u.ToolCalls,
		CachedTokens: u.CachedTokens, ReasoningTokens: u.ReasoningTokens, Model: u.Model,
	}
}
