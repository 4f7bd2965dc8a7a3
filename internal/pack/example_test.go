package pack_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/pack"
)

const source = `
id: retry
name: Retry
version: 1.0.0
template_engine: {version: v1, syntax: "{{variable}}"}
prompts:
  work:
    id: work
    name: Work
    version: 1.0.0
    system_template: "Do {{task}}. Last error: {{artifacts.error}}"
    variables:
      - {name: task, type: string, required: true}
workflow:
  version: 2
  entry: work
  states:
    work:
      prompt_task: work
      max_visits: 3
      on_max_visits: done
      artifacts: {error: {type: text/plain}}
      on_event: {Failed: work, Worked: done}
    done:
      prompt_task: work
      artifacts: {error: {type: text/plain}}
      terminal: true
`

func ExampleLoad() {
	p, diagnostics, err := pack.Load([]byte(source), pack.Options{})
	if err != nil || p == nil {
		fmt.Println(err, diagnostics)
		return
	}
	fmt.Println(p.ID, p.Version, p.Digest[:15], len(diagnostics))
	// Output: retry 1.0.0 sha256:4be9a66b 0
}

func ExampleLoad_errors() {
	_, diagnostics, _ := pack.Load([]byte(`{"id":"p","id":"q"}`), pack.Options{})
	fmt.Println(diagnostics[len(diagnostics)-1])
	// Output: 1:11: error PPPAWL-6: the name "id" is given twice in one object
}

func ExamplePack_Analyze() {
	p, _, _ := pack.Load([]byte(source), pack.Options{})
	t := p.Analyze()
	fmt.Println(t.Bounded, *t.MaxVisits, t.BoundedBy)
	// Output: true 4 [max_visits]
}

func ExamplePack_CheckVariables() {
	p, _, _ := pack.Load([]byte(source), pack.Options{})
	_, faults, _ := p.CheckVariables(pack.Entry{}, []byte(`{"tsak":"x"}`))
	for _, f := range faults {
		fmt.Println(f)
	}
	// Output:
	// variables.task: required variable is missing (type string)
	// variables.tsak: unknown variable; allowed: task
}

func ExamplePack_Compile() {
	p, _, _ := pack.Load([]byte(source), pack.Options{})
	g, err := p.Compile(pack.Entry{State: "done"})
	fmt.Println(g.Entry, len(g.States), err)
	_, err = p.Compile(pack.Entry{State: "gone"})
	fmt.Println(err)
	// Output:
	// done 1 <nil>
	// pack: state "gone" does not exist; allowed: done, work
}
