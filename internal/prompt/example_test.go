package prompt_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/prompt"
)

func ExampleRender() {
	out, err := prompt.Render("{{fragments.greet}} Report: {{ artifacts.report }}; passed {{artifacts.report.passed}}.", prompt.Scope{
		Variables: map[string]any{"name": "{{secret}}", "secret": "never shown"},
		Artifacts: map[string]any{"report": map[string]any{"passed": 2, "failed": []any{"a"}}},
		Fragments: map[string]string{"greet": "Hello {{name}}."},
	})
	fmt.Println(out, err)
	// Output: Hello {{secret}}. Report: {"failed":["a"],"passed":2}; passed 2. <nil>
}

func ExampleParse() {
	for _, ref := range prompt.Parse("{{a.b[0]}} {{#if x}} {{artifacts.sha}}").Refs() {
		fmt.Println(ref.Namespace, ref.Name, len(ref.Path))
	}
	// Output:
	// 0 a 2
	// 1 sha 0
}
