package script

import (
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func TestArtifactValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value     any
		mediaType string
		want      *pawlv1.ArtifactValue
	}{
		"text":                      {"x", "text/markdown", textValue("x")},
		"text of an unknown type":   {"x", "", textValue("x")},
		"JSON string":               {"x", "application/json", jsonValue(`"x"`)},
		"JSON with a parameter":     {"x", "application/json; charset=utf-8", jsonValue(`"x"`)},
		"JSON by suffix":            {map[string]any{"a": []any{uint64(1), nil, "<"}}, "application/sarif+json", jsonValue(`{"a":[1,null,"<"]}`)},
		"a number for a text":       {uint64(5), "text/plain", jsonValue(`5`)},
		"bytes":                     {"/w==", "image/png", &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Data{Data: []byte{0xff}}}},
		"a value of no known type":  {[]any{true}, "", jsonValue(`[true]`)},
		"an object for other bytes": {map[string]any{}, "image/png", jsonValue(`{}`)},
	} {
		got, err := artifactValue(tc.value, tc.mediaType)
		if err != nil || got.String() != tc.want.String() {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
	if _, err := artifactValue("not base64!", "image/png"); err == nil {
		t.Error("bad base64 was taken")
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value any
		want  *pawlv1.Part
	}{
		"a text":     {"a", &pawlv1.Part{Content: &pawlv1.Part_Text{Text: "a"}}},
		"no text":    {"", nil},
		"an object":  {map[string]any{"a": uint64(1)}, &pawlv1.Part{Content: &pawlv1.Part_Json{Json: `{"a":1}`}}},
		"a boolean":  {false, &pawlv1.Part{Content: &pawlv1.Part_Json{Json: `false`}}},
		"not at all": {nil, nil},
	} {
		got, err := Parts(tc.value)
		switch {
		case err != nil, (tc.want == nil) != (len(got) == 0):
			t.Errorf("%s: %v, %v", name, got, err)
		case tc.want != nil && got[0].String() != tc.want.String():
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func textValue(s string) *pawlv1.ArtifactValue {
	return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: s}}
}

func jsonValue(s string) *pawlv1.ArtifactValue {
	return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: s}}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		result        any
		code, message string
	}{
		"nothing":  {nil, "tool_error", ""},
		"text":     {"broken", "tool_error", "broken"},
		"both":     {map[string]any{"code": "c", "message": "m"}, "c", "m"},
		"message":  {map[string]any{"message": "m"}, "tool_error", "m"},
		"anything": {[]any{uint64(1)}, "tool_error", "[1]"},
	} {
		f := (&Step{Result: tc.result}).fault()
		if f.GetCode() != tc.code || f.GetMessage() != tc.message {
			t.Errorf("%s: %v", name, f)
		}
	}
	if f := (&Fail{Message: "m"}).fault(); f.GetCode() != "turn_failed" {
		t.Errorf("%v", f)
	}
	if u := (&Usage{CostUSD: 0.0000015}).proto(); u.GetCostMicroUsd() != 2 {
		t.Errorf("%v", u)
	}
}
