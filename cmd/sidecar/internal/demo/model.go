package demo

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/script"
)

// model is a recorded model: it answers from a file. The file has the answers for each state, by the number of the
// visit.
type model struct{ file *script.File }

func loadModel() (*model, error) {
	raw, err := assets.ReadFile("assets/model.yaml")
	if err != nil {
		return nil, err
	}
	file, err := script.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("recorded model: %w", err)
	}
	return &model{file}, nil
}

// answer returns the recorded answer for a visit of a state. Visits count from 1. The answer depends on nothing else, so that a new
// executor continues where the previous one stopped.
func (m *model) answer(state string, visit int32) (*script.Answer, error) {
	n := int32(0)
	for i := range m.file.Turns {
		if m.file.Turns[i].State != state {
			continue
		}
		if n++; n == visit {
			return &m.file.Turns[i], nil
		}
	}
	return nil, fmt.Errorf("the model was never recorded for visit %d of %s", visit, state)
}
