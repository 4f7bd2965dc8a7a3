package diagram_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/diagram"
	"github.com/pawl-dev/pawl/internal/pack"
)

const source = `
id: retry
name: Retry
version: 1.0.0
template_engine: {version: v1, syntax: "{{variable}}"}
prompts:
  work: {id: work, name: Work, version: 1.0.0, system_template: Do it.}
workflow:
  version: 2
  entry: work
  states:
    work:
      prompt_task: work
      max_visits: 3
      on_max_visits: done
      on_event: {Failed: work, Worked: done}
    done: {prompt_task: work, terminal: true}
`

func ExampleDiagram_Mermaid() {
	p, _, _ := pack.Load([]byte(source), pack.Options{})
	fmt.Print(diagram.Of(p).Mermaid())
	// Output:
	// flowchart TD
	//   n0(["done<br/>prompt: work"])
	//   n1["work<br/>prompt: work<br/>max_visits: 3"]
	//   start(( )) --> n1
	//   n1 -->|"Failed"| n1
	//   n1 -->|"Worked"| n0
	//   n1 -.->|"on max_visits"| n0
}
