package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	gw "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// RealJSON reads request bodies as ProtoJSON, with two additions. First, a field that contains JSON as
// text may also be written as real JSON: `"variables": {"goal": "x"}` and `"variablesJson": {"goal":
// "x"}` mean `"variablesJson": "{\"goal\":\"x\"}"`. Numbers keep their digits. Second, an enum value
// may be the short name that the command line uses: `"CALLER"` means `"EXECUTION_CALLER"`. Answers are
// plain ProtoJSON.
type RealJSON struct{ gw.JSONPb }

// NewDecoder implements the library's Marshaler.
func (m *RealJSON) NewDecoder(r io.Reader) gw.Decoder {
	return gw.DecoderFunc(func(v any) error {
		msg, ok := v.(proto.Message)
		if !ok {
			return m.JSONPb.NewDecoder(r).Decode(v)
		}
		body, err := io.ReadAll(r)
		if err != nil || len(bytes.TrimSpace(body)) == 0 {
			return m.JSONPb.NewDecoder(bytes.NewReader(body)).Decode(v)
		}
		if err := strictjson.Check(body); err != nil {
			return fmt.Errorf("the body is no JSON that every reader sees alike: %w", err)
		}
		if body, err = textJSON(msg.ProtoReflect().Descriptor(), body); err != nil {
			return err
		}
		return m.Unmarshal(body, v)
	})
}

// textJSON converts real JSON to text in the JSON form of a message. If the JSON does not have the
// structure of the message, textJSON returns it unchanged, and the library refuses it.
func textJSON(m protoreflect.MessageDescriptor, raw json.RawMessage) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw, nil
	}
	for i := range m.Fields().Len() {
		if err := textField(m.Fields().Get(i), object); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}

// textField converts the value of one field in object.
func textField(field protoreflect.FieldDescriptor, object map[string]json.RawMessage) error {
	if holdsJSON(field) {
		return textValue(field, object)
	}
	for _, name := range []string{field.JSONName(), field.TextName()} {
		raw, given := object[name]
		if given && field.Kind() == protoreflect.EnumKind {
			object[name] = fullEnums(field, raw)
			continue
		}
		if !given || field.Kind() != protoreflect.MessageKind || strings.HasPrefix(string(field.Message().FullName()), "google.") {
			continue
		}
		inner, err := textInner(field, raw)
		if err != nil {
			return err
		}
		object[name] = inner
	}
	return nil
}

// textInner converts a nested message, or each message of a list. A map stays unchanged.
func textInner(field protoreflect.FieldDescriptor, raw json.RawMessage) (json.RawMessage, error) {
	var err error
	switch {
	case field.IsList():
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return raw, nil
		}
		for i := range list {
			if list[i], err = textJSON(field.Message(), list[i]); err != nil {
				return nil, err
			}
		}
		return json.Marshal(list)
	case field.IsMap():
		return raw, nil
	}
	return textJSON(field.Message(), raw)
}

// fullEnums adds the prefix to short names of enum values, in a single value or a list.
func fullEnums(field protoreflect.FieldDescriptor, raw json.RawMessage) json.RawMessage {
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		list = []string{""}
		if json.Unmarshal(raw, &list[0]) != nil {
			return raw
		}
	}
	var full any
	for i, name := range list {
		list[i] = fullEnum(field.Enum(), name)
	}
	if full = list; !field.IsList() && len(list) == 1 {
		full = list[0]
	}
	out, err := json.Marshal(full)
	if err != nil {
		return raw
	}
	return out
}

// fullEnum returns the full name of an enum value. All names of an enum have the prefix of its value 0,
// which is named UNSPECIFIED.
func fullEnum(enum protoreflect.EnumDescriptor, name string) string {
	prefix, ok := strings.CutSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED")
	full := prefix + strings.ToUpper(name)
	if ok && enum.Values().ByName(protoreflect.Name(full)) != nil {
		return full
	}
	return name
}

// holdsJSON reports whether a field contains JSON as text. The name of such a field is `json` or ends
// with `_json`.
func holdsJSON(field protoreflect.FieldDescriptor) bool {
	name := field.TextName()
	return field.Kind() == protoreflect.StringKind && !field.IsList() && (name == "json" || strings.HasSuffix(name, "_json"))
}

// textValue converts the value of a field that contains JSON as text. The value may be under any of the
// names of the field.
func textValue(field protoreflect.FieldDescriptor, object map[string]json.RawMessage) error {
	names := []string{field.JSONName(), field.TextName()}
	if plain := strings.TrimSuffix(field.JSONName(), "Json"); plain != field.JSONName() && field.ContainingMessage().Fields().ByJSONName(plain) == nil {
		names = append(names, plain)
	}
	came := ""
	for _, name := range names {
		raw, given := object[name]
		if !given || name == came {
			continue
		}
		if came != "" {
			return fmt.Errorf("%q and %q are two forms of one field; give one of them", came, name)
		}
		came = name
		delete(object, name)
		text, err := textOf(raw, name == field.JSONName() || name == field.TextName())
		if err != nil {
			return err
		}
		object[field.JSONName()] = text
	}
	return nil
}

// textOf returns a JSON value as a JSON string. If mayBeText is set, a string already contains the text and is returned
// unchanged. Otherwise a string is a JSON value like any other. null means that the field is absent.
func textOf(raw json.RawMessage, mayBeText bool) (json.RawMessage, error) {
	if first := raw[0]; mayBeText && first == '"' || bytes.Equal(raw, []byte("null")) {
		return raw, nil
	}
	return json.Marshal(string(raw))
}
