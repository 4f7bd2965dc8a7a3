package endpoint

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Round is one response of the endpoint. In a case it is one of the words `order` (it calls the
// tool of that name for three tulips), `leave` (it leaves the state by Done) and `said` (the last
// text), or a mapping.
type Round struct {
	// Parts of an answer in the form of the case.
	Parts []Part `yaml:"parts"`
	// Finish is the provider's word for the end. Default: by the parts; "none": it does not say.
	Finish string `yaml:"finish"`
	// Usage is the usage in the provider's form, as JSON. Default: 50 input and 5 output tokens.
	// "none" means that it is not reported.
	Usage string `yaml:"usage"`
	// Error is the event that ends the stream instead of the answer's end, JSON.
	Error string `yaml:"error"`
	// Fail is the error of a response that failed (responses alone), JSON.
	Fail string `yaml:"fail"`
	// Stream are the events as they are, JSON, instead of parts. In the form chat
	// {"delta": …, "finish_reason": …} is a chunk with it, {"usage": …} one with usage alone.
	Stream []string `yaml:"stream"`
	// Raw is the body as it is, instead of events.
	Raw string `yaml:"raw"`
	// Status other than 200, with Body and Headers; {date+2} in a header is the date in 2 seconds.
	Status  int               `yaml:"status"`
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
	// Type is the content type. Default: text/event-stream, of a status other than 200
	// application/json.
	Type string `yaml:"type"`
	// Split sends every byte in a chunk of its own.
	Split bool `yaml:"split"`
	// Cut closes the connection before the end of the body.
	Cut bool `yaml:"cut"`
	// Unended leaves out the event with which a stream ends ([DONE], message_stop).
	Unended bool `yaml:"unended"`
	// Odd lines: CRLF, comments, a BOM, no space behind `data:`.
	Odd bool `yaml:"odd"`
	// Loop gives this round for ever.
	Loop bool `yaml:"loop"`

	// word is the round's, if it is one.
	word string
}

// Part of an answer: exactly one of text, call, reasoning, redacted, event.
type Part struct {
	Text *string `yaml:"text"`
	// Call is the name of a tool. {NAME} is the name that the model received for the pack's tool
	// NAME. ID and Arguments may be missing. Extra are further fields of the call as JSON, for
	// example a signature of Google's.
	Call      string  `yaml:"call"`
	ID        string  `yaml:"id"`
	Arguments *string `yaml:"arguments"`
	Extra     string  `yaml:"extra"`
	// Reasoning with the signature of its provider (messages), or as it is encrypted (responses).
	Reasoning *string `yaml:"reasoning"`
	Signature string  `yaml:"signature"`
	Redacted  string  `yaml:"redacted"`
	// Block is the start of a content block as it is, JSON (messages).
	Block string `yaml:"block"`
	// Event is an event of the stream as it is, JSON.
	Event string `yaml:"event"`
}

const (
	usualText                 = "The flowers are on their way."
	usualRead, usualWritten   = 50, 5
	tulipText                 = `{"flower": "tulip", "count": 3}`
	leavingTool               = `{"event": "Done", "artifacts": {"bill": "ok"}}`
	none                      = "none"
	pieceBytes                = 30_000
	contentTypeOfStreams      = "text/event-stream"
	contentTypeOfOtherAnswers = "application/json"
)

// words are the usual rounds.
var words = map[string]func() []Part{
	"order": func() []Part { return []Part{{Call: "order", ID: "call_a", Arguments: new(tulipText)}} },
	"leave": func() []Part { return []Part{{Call: "leave_state", ID: "call_leave", Arguments: new(leavingTool)}} },
	"said":  func() []Part { return []Part{{Text: new(usualText)}} },
}

// UnmarshalYAML reads a word or a mapping.
func (r *Round) UnmarshalYAML(decode func(any) error) error {
	var word string
	if decode(&word) == nil {
		made := words[word]
		if made == nil {
			return fmt.Errorf("%s is no round; there are order, leave, said, or a mapping", word)
		}
		*r = Round{Parts: made(), word: word}
		return nil
	}
	type plain Round
	return decode((*plain)(r))
}

// fill checks a round and makes its long texts.
func (r *Round) fill(form Form) error {
	for i, p := range r.Parts {
		if p.Arguments != nil {
			r.Parts[i].Arguments = new(expandLong(*p.Arguments))
		}
		if p.Text != nil {
			r.Parts[i].Text = new(expandLong(*p.Text))
		}
		r.Parts[i].ID = expandLong(p.ID)
		if p.Block != "" && form != Messages {
			return fmt.Errorf("parts[%d].block: of the form messages alone", i)
		}
		if p.Extra != "" && !json.Valid([]byte(p.Extra)) {
			return fmt.Errorf("parts[%d].extra: no JSON", i)
		}
	}
	if r.Fail != "" && form != Responses {
		return fmt.Errorf("fail: of the form responses alone")
	}
	return nil
}

// answers tells whether the round is an answer of parts, with its end.
func (r *Round) answers() bool {
	return r.Status == 0 && r.Raw == "" && r.Error == "" && r.Fail == "" && !r.Cut && !r.Unended && len(r.Stream) == 0
}

// reportsUsage tells whether the round is an answer whose usage is the usual one.
func (r *Round) reportsUsage() bool { return r.answers() && r.Usage == "" }

// called are the tool calls of the parts.
func (r *Round) called() []Part {
	var calls []Part
	for _, p := range r.Parts {
		if p.Call != "" {
			calls = append(calls, p)
		}
	}
	return calls
}

// reasoning are the thoughts of the parts.
func (r *Round) reasoning() string {
	var all strings.Builder
	for _, p := range r.Parts {
		if p.Reasoning != nil {
			all.WriteString(*p.Reasoning)
		}
	}
	return all.String()
}
