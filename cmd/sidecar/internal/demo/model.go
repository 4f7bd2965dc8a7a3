package demo

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/script"
)

// model is the recorded model: what each prompt answered, by visit.
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

// answer is what was recorded for a state's visit, counted from 1. It depends on
// nothing that the executor remembers, so that a new executor goes on where an
// old one stopped.
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
