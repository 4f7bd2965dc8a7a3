package protocol

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// FuzzParts: parts of a message are read or refused, and what was read is written.
func FuzzParts(f *testing.F) {
	f.Add([]byte(`{"parts":[{"text":"x"},{"raw":"AA==","mediaType":"image/png"},{"url":"http://x"},{"data":{"a":[1,null]}}]}`))
	f.Add([]byte(`{"parts":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		msg := &a2apb.Message{}
		if protojson.Unmarshal(raw, msg) != nil {
			return
		}
		parts, err := PartsFromProto("parts", msg.GetParts())
		if err == nil && len(PartsToProto(parts)) != len(parts) {
			t.Fatalf("%q loses parts", raw)
		}
	})
}

// FuzzUsage: what an agent says that it spent is never less than nothing.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(`{"inputTokens":1,"costMicroUsd":1e300,"toolCalls":-1}`))
	f.Add([]byte(`{"input_tokens":"1"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		value := &structpb.Value{}
		if protojson.Unmarshal(raw, value) != nil {
			return
		}
		u, _, _, err := UsageFromProto(value)
		if err == nil && (u.InputTokens < 0 || u.OutputTokens < 0 || u.CostMicro < 0 || u.ToolCalls < 0) {
			t.Fatalf("%q is %+v", raw, u)
		}
	})
}
