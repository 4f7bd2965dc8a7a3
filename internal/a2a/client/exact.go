package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// exact reads answers of agents over HTTP before the SDK does. The SDK's reader ignores the
// case of names, takes the last of two members and converts all numbers to doubles. Streams
// pass unchanged: they only show that an event occurred, and the task itself is read
// afterwards.
type exact struct{ next http.RoundTripper }

func (e exact) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := e.next.RoundTrip(req)
	if err != nil || strings.HasPrefix(req.Header.Get("Accept"), "text/event-stream") {
		return resp, err
	}
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read
	if err != nil {
		return nil, err
	}
	if json.Valid(raw) { // what is no JSON may pass: a proxy's page
		if raw, err = exactAnswer(raw); err != nil {
			return nil, refuses("AGENT_PROTOCOL", err)
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return resp, nil
}

// exactAnswer returns an answer that all readers decode in the same way: names of the protocol
// only in their own case, U+FFFD for half a character, and texts for values whose numbers
// exceed a double (terms.ExactURI).
func exactAnswer(raw []byte) ([]byte, error) {
	value, err := strictjson.ValueLenient(raw)
	if err != nil {
		return nil, err
	}
	return written(exactMessage(value)), nil
}

// exactMessage does it for a message of the protocol, in place.
func exactMessage(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = exactMessage(v[i])
		}
	case map[string]any:
		for name := range v {
			if !protocolNames[name] && ofProtocol(name) {
				delete(v, name)
			}
		}
		for name, member := range v {
			switch metadata, isObject := member.(map[string]any); {
			case name == "metadata" && isObject:
				exactMembers(metadata)
			case name != "data" && name != "metadata":
				v[name] = exactMessage(member)
			}
		}
		exactData(v)
	}
	return value
}

// exactMembers converts the members of metadata that exceed a double to texts. The usage of the
// agent stays as it is: its reader checks the limits, and refuses other values.
func exactMembers(metadata map[string]any) {
	for name, value := range metadata {
		if raw := written(value); name != protocol.DelegationURI && strictjson.Doubles(raw) != nil {
			metadata[name] = map[string]any{protocol.ExactURI: string(raw)}
		}
	}
}

// exactData makes a text of a part's data that doubles cannot carry.
func exactData(part map[string]any) {
	data, there := part["data"]
	raw := written(data)
	if !there || strictjson.Doubles(raw) == nil {
		return
	}
	delete(part, "data")
	part["text"] = string(raw)
	if media, _ := part["mediaType"].(string); media == "" {
		part["mediaType"] = "application/json"
	}
	metadata, _ := part["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		part["metadata"] = metadata
	}
	metadata[protocol.ExactURI] = true
}

// written is JSON of a value that was read.
func written(value any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// protocolNames are the members that the protocol and JSON-RPC have.
var protocolNames = namesOfProtocol()

func namesOfProtocol() map[string]bool {
	names := map[string]bool{"jsonrpc": true, "result": true, "error": true, "code": true, "message": true}
	messages := (&a2apb.Task{}).ProtoReflect().Descriptor().ParentFile().Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			names[fields.Get(j).JSONName()] = true
		}
	}
	return names
}

// ofProtocol: encoding/json would take the name for one of the protocol.
func ofProtocol(name string) bool {
	for known := range protocolNames {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}
