package facts_test

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules/facts"
)

// A step about another step has no answer for the turn, whatever its status.
func TestIsAnswered(t *testing.T) {
	if facts.IsAnswered(&machine.ToolStep{Status: machine.StepStatusOK, About: &machine.About{}}) {
		t.Error("a step about another step has an answer for the turn")
	}
	if !facts.IsAnswered(&machine.ToolStep{Status: machine.StepStatusOK}) {
		t.Error("a step that went well has no answer for the turn")
	}
}
