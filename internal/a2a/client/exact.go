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

// exact converts the HTTP answers of agents before the SDK decodes them. The decoder of the SDK ignores
// the case of names, uses the last of two equal members, and converts all numbers to doubles. Streams
// are not changed, because they only signal that an event occurred, and the task is read afterwards.
type exact struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper]. It makes the numbers of a JSON answer exact before the SDK reads them.
// Event streams and answers that are not JSON pass unchanged.
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
	if json.Valid(raw) { // an answer that is no JSON passes, for example a proxy's page
		if raw, err = exactAnswer(raw); err != nil {
			return nil, newRefusal("AGENT_PROTOCOL", err)
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return resp, nil
}

// exactAnswer returns an answer that all decoders read in the same way. It keeps names of the protocol
// only if they have the right case, writes U+FFFD for half a surrogate pair, and converts values with
// numbers that doubles cannot represent to texts ([protocol.ExactURI]).
func exactAnswer(raw []byte) ([]byte, error) {
	value, err := strictjson.ValueLenient(raw)
	if err != nil {
		return nil, err
	}
	return marshalJSON(exactMessage(value)), nil
}

// exactMessage replaces, in a decoded A2A message, values with numbers that doubles cannot represent by texts. It
// deletes members whose names differ from those of the protocol only in case. It changes the message in place.
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

// exactMembers converts each member of metadata with a number that a double cannot represent to an object that
// contains its JSON as a text ([protocol.ExactURI]). It skips the usage that the agent reports: its decoder checks the
// limits and refuses other values.
func exactMembers(metadata map[string]any) {
	for name, value := range metadata {
		if raw := marshalJSON(value); name != protocol.DelegationURI && strictjson.Doubles(raw) != nil {
			metadata[name] = map[string]any{protocol.ExactURI: string(raw)}
		}
	}
}

// exactData converts the data of a part to a text if doubles cannot represent its numbers.
func exactData(part map[string]any) {
	data, there := part["data"]
	raw := marshalJSON(data)
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

// marshalJSON returns the JSON text of a decoded value.
func marshalJSON(value any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// protocolNames are the names of members that occur in messages of the protocol and in JSON-RPC.
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

// ofProtocol reports whether encoding/json would accept the name as a name of the protocol.
func ofProtocol(name string) bool {
	for known := range protocolNames {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}
