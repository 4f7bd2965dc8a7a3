package model

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

const (
	// Library marks recorded messages that this package wrote in an endpoint's own form, so that it can send them
	// back unchanged (ADR 0091).
	Library = "pawl"
	// LibraryVersion is the version of the message forms.
	LibraryVersion = "1"
)

// envelope is the recorded message of an answer in the endpoint's form, with the name of that form.
type envelope struct {
	Library string                     `json:"library"`
	Version string                     `json:"version"`
	Message map[string]json.RawMessage `json:"message"`
}

// recordedText returns an answer's message in the endpoint's form as the text that is recorded, with the name of the form.
func recordedText(form Form, message any) string {
	return string(encodePlain(object{"library": Library, "version": LibraryVersion, "message": object{form.name(): message}}))
}

// encodePlain encodes v as JSON without escapes for HTML. v must consist of texts and valid JSON, so that encoding cannot fail.
func encodePlain(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n")
}

// recordedMessage returns the recorded message in the given form, so that it is sent again unchanged. It returns nil if
// there is none, or if it does not have the same tool calls as m; then the message is made from its readable parts.
func recordedMessage(form Form, m *pawlv1.Message) json.RawMessage {
	text := m.GetProviderJson()
	var e envelope
	if text == "" || strictjson.Decode([]byte(text), &e, strictjson.Foreign) != nil || e.Library != Library {
		return nil
	}
	raw := e.Message[form.name()]
	calls, err := callsOf(m)
	if len(raw) == 0 || err != nil {
		return nil
	}
	var ids []string
	for _, c := range calls {
		if form != Chat {
			c.ID = wireID(c.ID)
		}
		ids = append(ids, c.ID)
	}
	if !slices.Equal(ids, form.callIDs(parseUnambiguous(raw))) {
		return nil
	}
	return raw
}

// callIDs returns the ids of the tool calls in a message of the form f.
func (f Form) callIDs(message gjson.Result) (ids []string) {
	list, kind, id := message.Get("tool_calls"), "function", "id"
	switch f {
	case Messages:
		list, kind = message.Get("content"), "tool_use"
	case Responses:
		list, kind, id = message, "function_call", "call_id"
	}
	for _, item := range list.Array() {
		if textAt(item, "type") == kind {
			ids = append(ids, textAt(item, id))
		}
	}
	return ids
}

// ForeignLibrary returns the name and version of the library that recorded m in its own format. This package does not
// read that format, so it sends the text and the calls of m instead. It returns "" if m has no library's format, or that
// of this package.
func ForeignLibrary(m *pawlv1.Message) string {
	if m.GetProviderJson() == "" {
		return ""
	}
	var e struct {
		Library string `json:"library"`
		Version string `json:"version"`
	}
	if strictjson.Decode([]byte(m.GetProviderJson()), &e, strictjson.Foreign) != nil || e.Library == "" {
		return "a form without a library"
	}
	if e.Library == Library {
		return ""
	}
	return e.Library + " " + e.Version
}
