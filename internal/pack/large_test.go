package pack

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLargeDeclarations: documents at the limit that are made of one kind of declaration are judged in little time,
// with places, and with no more findings than are listed.
func TestLargeDeclarations(t *testing.T) {
	t.Parallel()
	list := func(n int, item func(int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = item(i)
		}
		return strings.Join(parts, ",")
	}
	const prompt = `"p":{"id":"p","name":"P","version":"1.0.0","system_template":"P."}`
	head := `{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},"prompts":{` + prompt
	state := func(control string) string {
		return head + `},"workflow":{"version":2,"entry":"s0","states":{` + list(10_000, func(i int) string {
			return fmt.Sprintf(`"s%d":{"prompt_task":"p",%s"on_event":{"Go":"s%d"}}`, i, control, (i+1)%10_000)
		}) + `}}}`
	}
	for name, c := range map[string]struct{ doc, says string }{
		"10 000 states in a circle":        {state(""), "PP0005-2"},
		"10 000 states that keep the turn": {state(`"control":"agent",`), "PP0014-4"},
		"10 000 states of the user":        {state(`"control":"user",`), "PP0005-2"},
		"a megabyte of obligations":        {head + `},"metadata":{"governance":{"obligations":[` + list(10_000, func(i int) string { return fmt.Sprintf(`{"id":"o","obligation":"q:%d","controls":[{"eval":"e"}]}`, i) }) + `]}}}`, "PP0016-4"},
		"a megabyte of reviews": {head + `},"metadata":{"governance":{"reviews":[` + list(8_000, func(i int) string {
			return fmt.Sprintf(`{"id":"r%d","type":"q:t","owner":"o","cadence":"P1Y","satisfies":["o"]}`, i)
		}) + `]}}}`, "PP0016-7"},
		"obligations beside validators": {head + `},"x":0,"metadata":{"governance":{"obligations":[` + list(9_000, func(int) string { return `{"id":"o","obligation":"x","controls":[{"validator":"w"}]}` }) + `]}}}`, "PP0016-5"},
		"agents that each declare vocabularies": {strings.TrimSuffix(head, prompt) + list(3_000, func(i int) string {
			return fmt.Sprintf(`"p%d":{"id":"p%d","name":"P","version":"1.0.0","system_template":"P."}`, i, i)
		}) + `},"agents":{"entry":"p0","members":{` + list(3_000, func(i int) string { return fmt.Sprintf(`"p%d":{"governance":{"capabilities":["q:x"]}}`, i) }) + `}},"metadata":{"governance":{"vocabularies":{` + list(9_000, func(i int) string { return fmt.Sprintf(`"v%d":"https://v.example/"`, i) }) + `}}}}`, "PP0013-5"},
		"requirements": {head + `},"requires":{"providers":[` + list(60_000, func(i int) string { return fmt.Sprintf(`"k%d"`, i/2) }) + `]}}`, "PP0012-1"},
		"references to providers": {strings.TrimSuffix(head, prompt) + list(6_000, func(i int) string {
			return fmt.Sprintf(`"p%d":{"id":"p%d","name":"P","version":"1.0.0","system_template":"P.","provider":"q%d"}`, i, i, i)
		}) + `},"requires":{"providers":[` + list(20_000, func(i int) string { return fmt.Sprintf(`"k%d"`, i) }) + `]}}`, "PP0017-1"},
		"steps inside steps":           {head + `},"compositions":{"c":{"version":1,"steps":[` + strings.Repeat(`{"id":"s","kind":"parallel","branches":[`, 300) + strings.Repeat(`]}`, 300) + `]}}}`, "PPPAWL-3"},
		"extensions inside extensions": {head + `},"tools":{"t":{"name":"t","description":"d","extensions":` + strings.Repeat(`{"x":`, 5_000) + `1` + strings.Repeat(`}`, 5_000) + `}}}`, "PPPAWL-3"},
		"more than a megabyte":         {head + `},"metadata":{"governance":{"intended_purpose":"` + strings.Repeat("x", 1<<20) + `"}}}`, "PPPAWL-1"},
		"one large text":               {head + `},"metadata":{"governance":{"intended_purpose":"` + strings.Repeat("x", 300<<10) + `"}}}`, "PPPAWL-4"},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, found, err := Load([]byte(c.doc), Options{})
			took := time.Since(begin)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) > maxDiagnostics+1 {
				t.Errorf("%d findings", len(found))
			}
			at := -1
			for i, d := range found {
				if d.Code == c.says {
					at = i
				}
			}
			if at < 0 {
				t.Fatalf("%d bytes, no %s in %d findings, the first: %.300s", len(c.doc), c.says, len(found), render(found))
			}
			if found[at].Line < 1 || found[at].Column < 1 {
				t.Errorf("no place: %v", found[at])
			}
			if took > 20*time.Second {
				t.Errorf("%d bytes took %v", len(c.doc), took)
			}
			t.Logf("%d bytes: %v", len(c.doc), took)
		})
	}
}
