package model

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// call is a recorded tool call in a message.
type call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	// Function contains the name and the arguments in messages that other executors recorded.
	Function *struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// callsOf reads the tool calls of a message.
func callsOf(m *pawlv1.Message) ([]call, error) {
	if m.GetToolCallsJson() == "" {
		return nil, nil
	}
	var calls []call
	if err := strictjson.Decode([]byte(m.GetToolCallsJson()), &calls, strictjson.Foreign); err != nil {
		return nil, &Failure{Code: CodeRequest, Final: true, Message: fmt.Sprintf("tool_calls_json of a message: %v", err)}
	}
	for i := range calls {
		if f := calls[i].Function; f != nil {
			calls[i].Name, calls[i].Arguments = f.Name, f.Arguments
		}
	}
	return calls, nil
}

// answerEveryCall returns the conversation with an answer after every tool call. Endpoints refuse a call without an answer. A call has no answer if
// the run left the state while the call was pending.
func answerEveryCall(messages []*pawlv1.Message) ([]*pawlv1.Message, error) {
	var out []*pawlv1.Message
	for i, m := range messages {
		out = append(out, m)
		if i+1 < len(messages) && messages[i+1].GetRole() == "tool" {
			continue
		}
		open, err := unansweredCalls(messages[:i+1])
		if err != nil {
			return nil, err
		}
		for _, id := range open {
			out = append(out, &pawlv1.Message{Role: "tool", ToolCallId: id, Parts: []*pawlv1.Part{
				{Content: &pawlv1.Part_Json{Json: `{"error":{"code":"NOT_MADE","message":"the call was not made"}}`}},
			}})
		}
	}
	return out, nil
}

// unansweredCalls returns the ids of the calls without an answer in the last message whose role is not tool. The messages
// with the role tool that follow it count as answers.
func unansweredCalls(messages []*pawlv1.Message) ([]string, error) {
	var answered []string
	for _, m := range slices.Backward(messages) {
		if m.GetRole() == "tool" {
			answered = append(answered, m.GetToolCallId())
			continue
		}
		calls, err := callsOf(m)
		var open []string
		for _, c := range calls {
			if !slices.Contains(answered, c.ID) {
				open = append(open, c.ID)
			}
		}
		return open, err
	}
	return nil, nil
}

// mediaOf returns the media type of a part.
func mediaOf(p *pawlv1.Part) string {
	media, _, _ := strings.Cut(p.GetMediaType(), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// textOf returns a part as text. JSON counts as a text. It returns false if the part is not a text.
func textOf(p *pawlv1.Part) (string, bool) {
	switch c := p.GetContent().(type) {
	case *pawlv1.Part_Text:
		return c.Text, true
	case *pawlv1.Part_Json:
		return c.Json, true
	}
	return "", false
}

// textsOf returns the text of all parts. If a part is not a text, the error names the part.
func textsOf(m *pawlv1.Message) (string, error) {
	var texts []string
	for i, p := range m.GetParts() {
		text, ok := textOf(p)
		if !ok {
			return "", unsupported(m, i)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n"), nil
}

// unsupported returns the error for a part that the endpoint does not accept.
func unsupported(m *pawlv1.Message, i int) error {
	p := m.GetParts()[i]
	what := "data"
	if p.GetUri() != "" {
		what = "a URI"
	}
	name := p.GetFilename()
	if name == "" {
		name = fmt.Sprintf("parts[%d]", i)
	}
	return &Failure{
		Code: CodePart, Final: true,
		Message: fmt.Sprintf("%s of a message of role %s: %s of media type %q is nothing that this endpoint takes there", name, m.GetRole(), what, p.GetMediaType()),
	}
}

func base64Data(p *pawlv1.Part) string { return base64.StdEncoding.EncodeToString(p.GetData()) }

// fetchable returns the URI of a part if an endpoint can fetch it, else "".
func fetchable(p *pawlv1.Part) string {
	if uri := p.GetUri(); strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "data:") {
		return uri
	}
	return ""
}
