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
	// Library is the name of the message forms of this package in recorded answers; see ADR 0091.
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

// sealed returns a message of a form as the text that is recorded.
func sealed(form Form, message any) string {
	return string(plain(object{"library": Library, "version": LibraryVersion, "message": object{form.name(): message}}))
}

// plain encodes v as JSON without escapes for HTML. v must consist of texts and valid JSON, so that encoding cannot fail.
func plain(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n")
}

// recorded returns the recorded message in the given form, so that it is sent again unchanged. It returns nil if there is none; then the
// message is made from its readable parts.
func recorded(form Form, m *pawlv1.Message) json.RawMessage {
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
	if !slices.Equal(ids, form.callIDs(seen(raw))) {
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

// ForeignLibrary returns the library, with its version, that recorded a message in a form that this package cannot read. This message is
// rebuilt from its readable parts. It returns "" if the message is not of this kind.
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
