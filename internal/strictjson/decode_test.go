package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	URL  string `json:"url"`
	Time *time.Time
}

type outer struct {
	inner
	Message string            `json:"message"`
	List    []*inner          `json:"list,omitempty"`
	ByName  map[string]inner  `json:"by_name"`
	Raw     json.RawMessage   `json:"raw"`
	Any     any               `json:"any"`
	Texts   map[string]string `json:"texts"`
	Left    string            `json:"-"`
	Bytes   []byte            `json:"bytes"`
}

// TestDecode: names are exact, at every depth, and which others are taken is said.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		names Names
		want  outer
		fault string
	}{
		{`{"message":"a","Message":"b"}`, Foreign, outer{Message: "a"}, ""},
		{`{"Message":"b"}`, Foreign, outer{}, ""},
		{`{"message":"a","Message":"b"}`, Open, outer{}, `"Message" differs from "message" by case only`},
		{`{"message":"a","more":{"Message":1}}`, Open, outer{Message: "a"}, ""},
		{`{"message":"a","more":1}`, Closed, outer{}, `there is no member "more", only Time, any, by_name, bytes`},
		{`{"list":[{"url":"x"},{"URL":"y"}]}`, Open, outer{}, `/list/1: the member "URL" differs`},
		{`{"by_name":{"a":{"Url":"y"},"A":{"url":"z"}}}`, Foreign, outer{ByName: map[string]inner{"a": {}, "A": {URL: "z"}}}, ""},
		{`{"raw":{"a":1,"A":2},"any":{"a":1,"A":"<&>"},"texts":{"a":"1","A":"2"}}`, Closed, outer{
			Raw: json.RawMessage(`{"a":1,"A":2}`), Any: map[string]any{"a": 1.0, "A": "<&>"}, Texts: map[string]string{"a": "1", "A": "2"},
		}, ""},
		{`{"url":"x","bytes":"AA=="}`, Closed, outer{inner: inner{URL: "x"}, Bytes: []byte{0}}, ""},
		{`{"message":"a","message":"a"}`, Foreign, outer{}, "there twice"},
		{`{"message":7}`, Foreign, outer{}, "/message: want string, got a JSON number"},
		{`[]`, Foreign, outer{}, "got a JSON array"},
		{`{"-":"x"}`, Closed, outer{}, `there is no member "-"`},
	} {
		var got outer
		err := Decode([]byte(c.text), &got, c.names)
		switch {
		case c.fault == "" && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("%s: %+v, %v", c.text, got, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want %q", c.text, err, c.fault)
		}
	}
	var list []inner
	if err := Decode([]byte(`[{"url":"a"},null]`), &list, Closed); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
	if members, err := Object([]byte(` {"a":1,"A":2}`)); err != nil || string(members["A"]) != "2" {
		t.Error(members, err)
	}
	if _, err := Object([]byte(`null`)); err == nil {
		t.Error("null is an object")
	}
}
