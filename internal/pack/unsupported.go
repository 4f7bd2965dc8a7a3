package pack

import "fmt"

// UnsupportedError is the reason why no run can begin at an entry of a pack: the run could reach a
// feature that this product does not support. Such a pack can still be registered. The registration
// then returns a warning with the same code.
type UnsupportedError struct {
	// Code is the code of the warning.
	Code string
	// Pointer is the position in the document.
	Pointer string
	// Message names the missing feature. Hint describes what to use instead.
	Message, Hint string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("pack: %s %s: %s", e.Code, e.Pointer, e.Message)
}

// Supports returns nil if this product supports all features that runs from an entry can need. Errors:
// [*EntryError], [*UnsupportedError].
func (p *Pack) Supports(entry Entry) error {
	start, err := p.Start(entry)
	if err != nil {
		return err
	}
	if start.Prompt {
		return p.checkEnforced(start.Agent)
	}
	if err := p.composedFrom(start.State); err != nil {
		return err
	}
	for _, name := range p.reachableStates(start.State) {
		if err := p.checkEnforced(p.Doc.Workflow.States[name].PromptTask); err != nil {
			return err
		}
	}
	return nil
}

// composedFrom returns an error if a run that begins in start could reach a composition.
func (p *Pack) composedFrom(start string) error {
	for _, name := range p.reachableStates(start) {
		if p.Doc.Workflow.States[name].Orchestration == "composition" {
			return &UnsupportedError{
				Code: ruleComposed, Pointer: pointer("workflow", "states", name, "orchestration"),
				Message: fmt.Sprintf("the state %s is orchestrated by a composition, which this product does not run", quote(name)),
				Hint:    "Use a prompt with orchestration internal, external or hybrid, or begin at an agent that does not reach that state.",
			}
		}
	}
	return nil
}
