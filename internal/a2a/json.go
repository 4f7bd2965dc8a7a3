package a2a

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// unmarshal takes camelCase and snake_case and ignores what it does not know.
func unmarshal(raw []byte, into proto.Message) error {
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, into)
}

// marshal is compact ProtoJSON. Fields that the protocol requires are there even
// if they are empty, which ProtoJSON leaves out.
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
