package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// HeadOf returns the head of a written artifact, or nil.
func HeadOf(s *machine.State, name string) *machine.ArtifactHead {
	for i := range s.Artifacts {
		if s.Artifacts[i].Name == name {
			return &s.Artifacts[i]
		}
	}
	return nil
}
