package a2a

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// unmarshal decodes a request. It accepts camelCase and snake_case, and ignores unknown fields. An
// unknown value of an enum is an error, because ignoring it could, for example, remove a filter.
func unmarshal(raw []byte, into proto.Message) error {
	// The decoder below reads numbers in data and metadata as doubles, so numbers that doubles cannot
	// represent are refused here.
	if err := strictjson.Doubles(raw); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) == nil {
		if err := checkEnums(fields, into.ProtoReflect().Descriptor()); err != nil {
			return err
		}
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, into)
}

// marshal returns compact ProtoJSON. It writes the fields that the protocol requires even if they are
// empty, because ProtoJSON omits them.
func marshal(m proto.Message) ([]byte, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var required map[string]any
	switch out := m.(type) {
	case *a2apb.ListTasksResponse:
		required = map[string]any{"tasks": []any{}, "nextPageToken": "", "pageSize": out.GetPageSize(), "totalSize": out.GetTotalSize()}
	case *a2apb.ListTaskPushNotificationConfigsResponse:
		required = map[string]any{"configs": []any{}, "nextPageToken": ""}
	}
	if required == nil {
		var b bytes.Buffer
		err := json.Compact(&b, raw)
		return b.Bytes(), err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for key, value := range required {
		if _, there := fields[key]; !there {
			fields[key], _ = json.Marshal(value)
		}
	}
	return json.Marshal(fields)
}

// checkEnums returns an error if a value of an enum does not exist in the protocol.
func checkEnums(object map[string]json.RawMessage, of protoreflect.MessageDescriptor) error {
	for key, raw := range object {
		field := of.Fields().ByJSONName(key)
		if field == nil {
			field = of.Fields().ByTextName(key)
		}
		if field == nil || field.IsMap() || field.Enum() == nil && field.Message() == nil {
			continue
		}
		values := []json.RawMessage{raw}
		if field.IsList() && json.Unmarshal(raw, &values) != nil {
			continue
		}
		for _, value := range values {
			if err := checkEnum(value, field); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

func checkEnum(raw json.RawMessage, field protoreflect.FieldDescriptor) error {
	if enum := field.Enum(); enum != nil {
		var name string
		if json.Unmarshal(raw, &name) == nil && name != "" && enum.Values().ByName(protoreflect.Name(name)) == nil {
			return fmt.Errorf("%q is no %s", clip(name, 100), enum.Name())
		}
		return nil
	}
	var inner map[string]json.RawMessage
	if strings.HasPrefix(string(field.Message().FullName()), "google.protobuf.") || json.Unmarshal(raw, &inner) != nil {
		return nil
	}
	return checkEnums(inner, field.Message())
}
