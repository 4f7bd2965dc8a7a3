package protocol

import (
	"encoding/json"
	"math"
	"math/big"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// textOnly reports whether the numbers in this JSON cannot be sent as A2A data, because they would
// become doubles.
func textOnly(raw []byte) bool { return strictjson.Doubles(raw) != nil && strictjson.Valid(raw) }

// ValueToProto converts JSON that was already checked. JSON with numbers that doubles cannot represent
// becomes an object with [ExactURI]. Invalid JSON becomes null.
func ValueToProto(raw []byte) *structpb.Value {
	v := &structpb.Value{}
	switch {
	case textOnly(raw):
		return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{ExactURI: structpb.NewStringValue(string(raw))}})
	case protojson.Unmarshal(raw, v) != nil:
		return structpb.NewNullValue()
	}
	return v
}

// ObjectToProto converts a JSON object that was already checked. It converts each member in the same
// way as [ValueToProto]. An empty input becomes nil.
func ObjectToProto(raw []byte) *structpb.Struct {
	if !textOnly(raw) {
		return ValueToProto(raw).GetStructValue()
	}
	members, err := strictjson.Object(raw)
	if err != nil {
		return nil
	}
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(members))}
	for name, value := range members {
		out.Fields[name] = ValueToProto(value)
	}
	return out
}

// ValueFromProto returns the compact JSON of a value. For an object with [ExactURI] it returns the JSON
// in the text of the member. Whole numbers are written with all digits.
func ValueFromProto(v *structpb.Value) []byte {
	if said := v.GetStructValue().GetFields(); len(said) == 1 {
		if text, ok := said[ExactURI].GetKind().(*structpb.Value_StringValue); ok {
			if exact, err := strictjson.Compact([]byte(text.StringValue)); err == nil {
				return exact
			}
		}
	}
	raw, err := json.Marshal(exactNumbers(v.AsInterface()))
	if err != nil {
		return []byte("null")
	}
	return raw
}

// ObjectFromProto returns a compact JSON object. It converts each member in the same way as
// [ValueFromProto]. nil becomes an empty output.
func ObjectFromProto(s *structpb.Struct) []byte {
	if len(s.GetFields()) == 0 {
		return nil
	}
	members := make(map[string]json.RawMessage, len(s.GetFields()))
	for name, value := range s.GetFields() {
		members[name] = ValueFromProto(value)
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return raw
}

// exactNumbers replaces each double that is a whole number, so that its JSON text has all digits. For
// example, 2^60 becomes 1152921504606846976. Without this, the text would be the shortest one that is
// rounded to 2^60.
func exactNumbers(value any) any {
	switch v := value.(type) {
	case float64:
		short, _ := json.Marshal(v)
		if _, exact := strictjson.Double(string(short)); exact || math.Abs(v) < 1 {
			return v
		}
		whole, _ := new(big.Float).SetFloat64(v).Int(nil)
		if text := whole.String(); len(text) <= strictjson.MaxNumber {
			return json.Number(text)
		}
	case map[string]any:
		for name := range v {
			v[name] = exactNumbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = exactNumbers(v[i])
		}
	}
	return value
}
