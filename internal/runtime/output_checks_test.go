package runtime

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/pack/assertion"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestWordsDoNotHide: a forbidden word is found in each form in which a turn can say it.
func TestWordsDoNotHide(t *testing.T) {
	t.Parallel()
	check, err := assertion.Compile("banned_words", []byte(`{"words":["guarantee"]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) machine.Part { return machine.Part{Kind: machine.PartText, Text: s} }
	for name, parts := range map[string][]machine.Part{
		"a text":                     {text("We guarantee it.")},
		"two parts":                  {text("We guar"), text("antee it.")},
		"the first of two parts":     {text("guarantee"), text("d")},
		"JSON":                       {{Kind: machine.PartJSON, Data: []byte(`{"a":["guarantee"]}`)}},
		"JSON behind a line's end":   {{Kind: machine.PartJSON, Data: []byte(`{"a":"Hi\nguarantee"}`)}},
		"JSON with escapes":          {{Kind: machine.PartJSON, Data: []byte(`{"a":"\u0067uarantee"}`)}},
		"a name in JSON":             {{Kind: machine.PartJSON, Data: []byte(`{"\u0067uarantee":1}`)}},
		"text that is JSON":          {text(`"\u0067uarantee"`)},
		"text that is JSON, further": {text(`[{"a":"Hi\tguarantee"}]`)},
	} {
		turn := &assertion.Turn{Ended: true}
		addText(turn, "output", parts)
		if hit := check.Test(turn); hit.Reason == "" {
			t.Errorf("%s: no hit in %+v", name, turn)
		}
	}
	turn := &assertion.Turn{Ended: true}
	if addText(turn, "output", []machine.Part{{Kind: machine.PartURI, Text: "guarantee"}}); len(turn.Said) != 0 {
		t.Errorf("a reference is said: %+v", turn)
	}
}
