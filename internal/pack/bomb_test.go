package pack

import (
	"fmt"
	"strings"
)

// bombs are documents within the size limit that are made to cost much.
func bombs() map[string]string {
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const m = 1 << 20
	return map[string]string{
		"brackets": strings.Repeat("[", m), "braces": strings.Repeat("{", m), "yaml brackets": "a: " + strings.Repeat("[", m-3),
		"yaml braces": "a: " + strings.Repeat("{", m-3), "dashes": strings.Repeat("- ", m/2), "questions": strings.Repeat("? ", m/2),
		"percent": strings.Repeat("%", m), "stars": "a: " + strings.Repeat("*", m-3), "ampersands": "a: " + strings.Repeat("&", m-3),
		"bangs": "a: " + strings.Repeat("!", m-3), "quotes": "a: " + strings.Repeat("'", m-3), "newlines": strings.Repeat("\n", m),
		"tabs": strings.Repeat("\t", m), "spaces": strings.Repeat(" ", m), "colons": strings.Repeat(": ", m/2), "commas": "a: [" + strings.Repeat(",", m-4),
		"pipes": "a: |\n" + strings.Repeat(" x\n", 80_000), "keys": numbered(45_000, "k%d: v\n"), "empty keys": numbered(80_000, "k%d:\n"),
		"entries": "a:\n" + strings.Repeat("- a\n", 90_000), "laughs": laughs(), "zero": strings.Repeat("\x00", m), "backslashes": `{"a":"` + strings.Repeat(`\`, m-7),
		"json keys": "{" + strings.TrimSuffix(numbered(45_000, `"k%d":1,`), ",") + "}", "numbers": `{"a":[` + strings.Repeat("1e9,", 90_000) + "1]}",
		"prompts": prefix + strings.TrimSuffix(numbered(12_000, `"p%d":{"id":"x","name":"n","system_template":"{{v}}"},`), ",") + "}}",
		"states": prefix + prompt1 + `},"workflow":{"version":2,"entry":"s0","states":{` +
			strings.TrimSuffix(numbered(9_000, `"s%d":{"prompt_task":"a","max_visits":9,"on_max_visits":"s1","on_event":{"A":"s2","B":"zz"}},`), ",") + "}}}",
		"offered again": prefix + `"a":{"id":"a","name":"A","version":"1.0.0","system_template":"x","tools":[` + strings.TrimSuffix(numbered(200, `"t%d",`), ",") + `]}},"tools":{` +
			strings.TrimSuffix(numbered(200, `"t%d":{"name":"t","description":"d"},`), ",") + `},"workflow":{"version":2,"entry":"s0","states":{` +
			strings.TrimSuffix(numbered(6_000, `"s%[1]d":{"prompt_task":"a","on_event":{"A":"e%[1]d"}},"e%[1]d":{"prompt_task":"a","terminal":true},`), ",") + "}}}",
		"chain":         prefix + prompt1 + `},"workflow":{"version":2,"entry":"s0","states":{` + chain(9_000) + "}}}",
		"dense":         prefix + prompt1 + `},"workflow":{"version":2,"entry":"s0","states":{` + dense(180) + "}}}",
		"tools":         prefix + prompt1 + `},"tools":{` + strings.TrimSuffix(numbered(8_000, `"t%d":{"name":"t","description":"d","parameters":{"type":"object","properties":{}}},`), ",") + "}}",
		"pattern":       prefix + prompt1 + `},"tools":{"t":{"name":"t","description":"d","parameters":{"pattern":"` + strings.Repeat("x{1000}", 30_000) + `"}}}}`,
		"many patterns": prefix + prompt1 + `},"tools":{"t":{"name":"t","description":"d","parameters":{"patternProperties":{` + strings.TrimSuffix(numbered(40_000, `"%dx{900}":{},`), ",") + `}}}}}`,
		"evals": prefix + strings.TrimSuffix(numbered(11_000, `"p%d":{"id":"x","name":"n","system_template":"x"},`), ",") + `},"evals":[` +
			strings.TrimSuffix(numbered(100, `{"id":"e%d","type":"json_valid","trigger":"every_turn"},`), ",") + "]}",
		"validations": prefix + `"a":{"id":"a","name":"A","version":"1.0.0","system_template":"x","variables":[` +
			strings.TrimSuffix(numbered(12_000, `{"name":"v%d","type":"string","validation":{"pattern":"(?:x{30}){30}y"}},`), ",") + `]}}}`,
		"fragments": prefix + prompt1 + `},"fragments":{"big":"` + strings.Repeat("{{v}}", 40_000) + `"` +
			numbered(20_000, `,"f%d":"{{fragments.big}}"`) + "}}",
		"artifacts": prefix + `"a":{"id":"a","name":"A","version":"1.0.0","system_template":"` + numbered(8_000, "{{artifacts.a%d}}") + `"}},"workflow":{"version":2,"entry":"s0","states":{` +
			strings.TrimSuffix(numbered(9_000, `"s%d":{"prompt_task":"a","terminal":true},`), ",") + "}}}",
	}
}

const (
	prefix  = `{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},"prompts":{`
	prompt1 = `"a":{"id":"a","name":"A","version":"1.0.0","system_template":"x"}`
)

// chain is n guarded states, each the forced exit of the one before.
func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"s%d":{"prompt_task":"a","max_visits":3,"on_max_visits":"s%d","on_event":{"A":"s%d"}},`, i, (i+1)%n, (i+1)%n)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// dense is n guarded states with an event from each to every other one.
func dense(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"s%d":{"prompt_task":"a","max_visits":9,"on_event":{`, i)
		for j := range n {
			fmt.Fprintf(&b, `"E%d":"s%d",`, j, j)
		}
		b.WriteString(`"Z":"s0"}},`)
	}
	return strings.TrimSuffix(b.String(), ",")
}
