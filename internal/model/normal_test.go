package model

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestNormal: answers are recorded as the table of all languages says.
func TestNormal(t *testing.T) {
	t.Parallel()
	type call struct {
		ID        string  `json:"id"`
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
		Broken    string  `json:"broken_arguments"`
	}
	type answer struct {
		Round    int32    `json:"round"`
		KnownIDs []string `json:"known_ids"`
		Texts    []string `json:"texts"`
		Calls    []call   `json:"calls"`
		Refusal  string   `json:"refusal"`
	}
	var cases []struct {
		Name  string  `json:"name"`
		Given answer  `json:"given"`
		Want  *answer `json:"want"`
	}
	raw, err := os.ReadFile("../../testdata/model/normal.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) < 20 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			given := rawAnswer{texts: c.Given.Texts, refusal: c.Given.Refusal}
			for _, one := range c.Given.Calls {
				heard := rawCall{id: one.ID, name: one.Name}
				if one.Arguments != nil {
					heard.arguments = *one.Arguments
				}
				given.calls = append(given.calls, heard)
			}
			known := map[string]bool{}
			for _, id := range c.Given.KnownIDs {
				known[id] = true
			}
			texts, calls, ok := normalizeAnswer(given, c.Given.Round, known)
			if ok != (c.Want != nil) {
				t.Fatalf("is an answer: %t", ok)
			}
			if !ok {
				return
			}
			if !slices.Equal(texts, c.Want.Texts) || len(calls) != len(c.Want.Calls) {
				t.Fatalf("%q, %v", texts, calls)
			}
			for i, want := range c.Want.Calls {
				got := calls[i]
				if got.GetId() != want.ID || got.GetName() != want.Name || got.GetArguments() != *want.Arguments || got.GetBrokenArguments() != want.Broken {
					t.Errorf("%v, want %+v", got, want)
				}
			}
		})
	}
}

// TestHalvesOfCharacters: they are joined where both come, in one piece or in two, escaped or not.
func TestHalvesOfCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pieces []string
		want   string
	}{
		{[]string{`"\ud83c\udf37"`}, "🌷"},
		{[]string{`"a\ud83c"`, `"\udf37b"`}, "a🌷b"},
		{[]string{"\"a\xed\xa0\xbc\"", "\"\xed\xbc\xb7b\""}, "a🌷b"},
		{[]string{`"\ud83c"`, `"x"`}, "\uFFFDx"},
		{[]string{`"\udf37\ud83c"`}, "\uFFFD\uFFFD"},
		{[]string{`"\n\"\\\/\u00e9"`}, "\n\"\\/é"},
		{[]string{"\"\xff\xfe\""}, "\uFFFD"},
	} {
		var whole, told string
		tell := streamWriter{e: &Endpoint{}, text: flow{to: func(s string) { told += s }}}
		for _, raw := range c.pieces {
			whole += unquoteJSON(raw)
			tell.writeText(unquoteJSON(raw))
		}
		tell.end()
		if got := wellFormed(whole); got != c.want || told != c.want {
			t.Errorf("%q: %q, told %q", c.pieces, got, told)
		}
	}
}
