package assertion

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// schemas accepts values that are not null, for tests.
func schemas(raw json.RawMessage) (Faults, error) {
	if string(raw) == `"bad"` {
		return nil, errors.New("it is bad")
	}
	return func(value any) ([]string, error) {
		switch value {
		case nil:
			return []string{"a", "b", "c", "d", "e", "f"}, nil
		case "dear":
			return nil, errors.New("it takes too much work")
		}
		return nil, nil
	}, nil
}

func turnOf(texts ...string) *Turn {
	t := &Turn{Ended: true}
	for _, text := range texts {
		t.Said = append(t.Said, Text{"output", text})
	}
	return t
}

func TestChecks(t *testing.T) {
	open := func(text string) *Turn { turn := turnOf(text); turn.Ended = false; return turn }
	calls := func(n int, ended bool) *Turn { return &Turn{Ended: ended, Calls: map[string]int{"find": n}} }
	for _, row := range []struct {
		typ, params string
		turn        *Turn
		place, want string // want "" means that the turn passes
	}{
		{"banned_words", `{"words":["foo"]}`, turnOf("a Foo!"), "output, characters 3 to 5", `the text contains "foo", which is not allowed`},
		{"banned_words", `{"words":["foo"]}`, turnOf("food, snafoo, foo_d"), "", ""},
		{"banned_words", `{"patterns":["foo"],"match_mode":"substring"}`, turnOf("food"), "output, characters 1 to 3", `"foo"`},
		{"banned_words", `{"words":["größe"]}`, turnOf("die GRÖSSE, die Größe"), "output, characters 17 to 21", `"größe"`},
		{"banned_words", `{"words":["größe"]}`, turnOf("übergröße"), "", ""},
		{"banned_words", `{"words":["foo bar"]}`, open("a foo bar"), "output, characters 3 to 9", `"foo bar"`},
		{"banned_words", `{"words":["foo"],"message":"no"}`, &Turn{Written: []Text{{"artifact plan", "foo"}}}, "artifact plan, characters 1 to 3", `"foo"`},
		{"content_excludes", `{"patterns":["foo"]}`, turnOf("food"), "output, characters 1 to 3", `"foo"`},
		{"content_not_includes", `{"patterns":["foo"]}`, turnOf("bar"), "", ""},
		{"contains", `{"patterns":["Foo","bar"]}`, turnOf("foo"), "output", `the text does not contain "bar"`},
		{"contains", `{"patterns":["Foo"]}`, turnOf("afoo"), "", ""},
		{"contains", `{"patterns":["Foo"]}`, open("bar"), "", ""}, // more may follow
		{"contains", `{"patterns":["Foo"]}`, turnOf(), "", ""},    // a turn that says nothing
		{"content_includes", `{"patterns":["a","b"]}`, turnOf("a", "b"), "", ""},
		{"contains_any", `{"patterns":["a","b"]}`, turnOf("xbx"), "", ""},
		{"content_includes_any", `{"patterns":["a","b"]}`, turnOf("x"), "output", `contains none of "a", "b"`},
		{"regex", `{"pattern":"^a+$"}`, turnOf("b"), "output", `does not match the pattern "^a+$"`},
		{"regex", `{"pattern":"^a+$"}`, turnOf("aa"), "", ""},
		{"content_matches", `{"pattern":"[0-9]{4}","expect_match":false}`, open("pin é1234"), "output, characters 6 to 9", `matches the pattern "[0-9]{4}"`},
		{"regex", `{"pattern":"[0-9]{4}","expect_match":false}`, turnOf("pin"), "", ""},
		{"max_length", `{"max":3}`, turnOf("ééé"), "", ""},
		{"max_length", `{"max_characters":3}`, open("éééé"), "output", "4 characters; at most 3"},
		{"length", `{"max_tokens":1}`, turnOf("abcde"), "output", "5 characters; at most 4"},
		{"length", `{"max_chars":9,"max_tokens":1}`, turnOf("abcde"), "output", "at most 4"},
		{"min_length", `{"min":4}`, turnOf("ééé"), "output", "3 characters; at least 4"},
		{"min_length", `{"min_chars":3}`, turnOf("ééé"), "", ""},
		{"max_sentences", `{"max_sentences":2}`, turnOf("One. Two! Three?"), "output", "3 sentences; at most 2"},
		{"max_sentences", `{"max":2}`, turnOf("One... Two"), "", ""},
		{"sentence_count", `{"min":1}`, turnOf("..."), "", ""},
		{"sentence_count", `{"min":2}`, turnOf("One."), "output", "1 sentences; at least 2"},
		{"required_fields", `{"required_fields":["Order","total"]}`, turnOf("order: 1"), "output", `the fields "total"`},
		{"field_presence", `{"fields":["order"]}`, turnOf("order: 1"), "", ""},
		{"json_valid", ``, turnOf("{}"), "", ""},
		{"is_valid_json", ``, turnOf("{} {}"), "output", "not one JSON value"},
		{"valid_json", `{"allow_wrapped":true}`, turnOf("Here:\n```json\n[1]\n```\nDone."), "", ""},
		{"json_valid", `{"extract_json":true}`, turnOf(`Here: {"a":1} done`), "", ""},
		{"json_valid", `{"extract_json":true}`, turnOf("none"), "output", "not one JSON value"},
		{"json_schema", `{"schema":{}}`, turnOf("1"), "", ""},
		{"json_schema", `{"schema":{}}`, turnOf("null"), "output", "the schema: a; b; c; d; e"},
		{"json_schema", `{"schema":{}}`, turnOf(`"dear"`), "output", "it takes too much work"},
		{"json_schema", `{"schema":{}}`, turnOf("nul"), "output", "not one JSON value"},
		{"tools_called", `{"tools":["find"]}`, calls(0, true), "", `"find" was called 0 times; at least 1`},
		{"tools_called", `{"tools":["find"]}`, calls(0, false), "", ""},
		{"tools_called", `{"tool_names":["find"],"max_calls":1}`, calls(2, false), "", "at most 1"},
		{"tool_called", `{"tool_names":["find"],"max_calls":0}`, calls(0, true), "", ""},
		{"tools_not_called", `{"tools":["find"]}`, calls(1, false), "", "was called, which is not allowed"},
		{"tools_not_called", `{"tools":["find"]}`, calls(0, true), "", ""},
		{"cost_budget", `{"max_cost_usd":0.5}`, &Turn{CostMicro: 500_001}, "", "has cost $0.500001; at most $0.500000"},
		{"cost_budget", `{"max_cost_usd":0.5,"max_total_tokens":9}`, &Turn{CostMicro: 500_000, Tokens: 10}, "", "10 tokens; at most 9"},
		{"cost_budget", `{"max_total_tokens":10}`, &Turn{CostMicro: 500_000, Tokens: 10}, "", ""},
		{"latency_budget", `{"max_ms":5}`, &Turn{Latency: 6 * time.Millisecond}, "", "took 6 ms; at most 5 ms"},
		{"latency_budget", `{"max_ms":5}`, &Turn{Latency: 5 * time.Millisecond}, "", ""},
	} {
		t.Run(row.typ+row.params, func(t *testing.T) {
			c, err := Compile(row.typ, json.RawMessage(row.params), schemas)
			if err != nil {
				t.Fatal(err)
			}
			hit := c.Test(row.turn)
			if hit.Place != row.place || !strings.Contains(hit.Reason, row.want) || (hit.Reason == "") != (row.want == "") {
				t.Errorf("hit %+v, want %q at %q", hit, row.want, row.place)
			}
		})
	}
}

// TestEveryTypeIsChecked: TestChecks above has a turn that each type refuses.
func TestEveryTypeIsChecked(t *testing.T) {
	for alias, typ := range aliases {
		if _, ok := kinds[typ]; !ok {
			t.Errorf("%s is an alias of %s, which is no type", alias, typ)
		}
	}
	if got := Types(); !slices.Equal(got, slices.Sorted(maps.Keys(kinds))) || len(got) != 15 {
		t.Errorf("types: %v", got)
	}
}

func TestBadParams(t *testing.T) {
	many := fmt.Sprintf(`{"words":[%s"x"]}`, strings.Repeat(`"x",`, MaxPatterns))
	long := fmt.Sprintf(`{"words":[%q]}`, strings.Repeat("x", 1025))
	for _, row := range []struct{ typ, params, want string }{
		{"toxicity", ``, "the type is not known; known: banned_words, contains, contains_any"},
		{"max_length", `{"maximum":1}`, `the parameter "maximum" is not known; known: max, max_characters, max_chars, max_tokens`},
		{"max_length", `[]`, "params: want an object"},
		{"max_length", ``, "max: is required"},
		{"max_length", `{"max":1,"max_chars":2}`, "max_chars: is the same as max; give one of them"},
		{"max_length", `{"max":1.5}`, "max: want a whole number, at least 1"},
		{"max_length", `{"max":0}`, "max: want a whole number, at least 1"},
		{"max_length", `{"max":"9"}`, "max: want a whole number"},
		{"max_length", `{"max":1e300}`, "max: want a whole number"},
		{"max_sentences", ``, "max: is required, or min"},
		{"min_length", ``, "min: is required"},
		{"banned_words", `{"words":[]}`, "words: want a list of texts, at least one"},
		{"banned_words", `{"words":"x"}`, "words: want a list of texts"},
		{"banned_words", `{"words":["x",1]}`, "words: want a list of texts"},
		{"banned_words", `{"words":[""]}`, "words: an empty text is in every text"},
		{"banned_words", many, "words: has 501 texts of 501 bytes; at most 500 texts of 16384 bytes"},
		{"banned_words", long, "words: has a text of 1025 bytes; at most 1024"},
		{"regex", `{"pattern":"a","expect_match":null}`, "expect_match: is null; leave it out"},
		{"latency_budget", `{"max_ms":null}`, "max_ms: is null"},
		{"banned_words", `{"words":["x"],"match_mode":"fuzzy"}`, "match_mode: want word_boundary or substring"},
		{"regex", `{}`, "pattern: is required"},
		{"regex", `{"pattern":""}`, "pattern: want a regular expression"},
		{"regex", `{"pattern":"(?=a)"}`, "pattern: not a usable regular expression (RE2 syntax)"},
		{"regex", `{"pattern":"a","expect_match":"no"}`, "expect_match: want true or false"},
		{"json_schema", ``, "schema: is required"},
		{"json_schema", `{"schema":"bad"}`, "schema: not a usable JSON Schema: it is bad"},
		{"tools_called", `{"tools":["a"],"min_calls":2,"max_calls":1}`, "max_calls: is less than min_calls"},
		{"cost_budget", ``, "max_cost_usd: is required, or max_total_tokens"},
		{"cost_budget", `{"max_cost_usd":-1}`, "max_cost_usd: want a number, at least 0"},
		{"latency_budget", ``, "max_ms: is required"},
	} {
		if _, err := Compile(row.typ, json.RawMessage(row.params), schemas); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s %.60s: %v, want %q", row.typ, row.params, err, row.want)
		}
	}
}

// FuzzCompile: no parameters and no text make a check panic.
func FuzzCompile(f *testing.F) {
	f.Add("banned_words", `{"words":["a"]}`, "a b")
	f.Add("json_schema", `{"schema":{},"extract_json":true}`, "x {")
	f.Add("regex", `{"pattern":"a","expect_match":false}`, "\xff")
	f.Fuzz(func(t *testing.T, typ, params, text string) {
		c, err := Compile(typ, json.RawMessage(params), schemas)
		if err != nil {
			return
		}
		turn := turnOf(text)
		if hit := c.Test(turn); len(hit.Reason) > maxReason+len("…") {
			t.Errorf("a reason of %d bytes", len(hit.Reason))
		}
	})
}

// ExampleCompile judges what a turn said.
func ExampleCompile() {
	check, err := Compile("banned_words", json.RawMessage(`{"words": ["guarantee"]}`), nil)
	if err != nil {
		panic(err)
	}
	hit := check.Test(&Turn{Said: []Text{{Place: "output", Text: "We guarantee it."}}})
	fmt.Println(hit.Place, "-", hit.Reason)
	// Output: output, characters 4 to 12 - the text contains "guarantee", which is not allowed
}
