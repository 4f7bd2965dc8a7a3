package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// HeadOf returns the head of an artifact, or nil if the artifact was never written.
func HeadOf(s *machine.State, name string) *machine.ArtifactHead {
	for i := range s.Artifacts {
		if s.Artifacts[i].Name == name {
			return &s.Artifacts[i]
		}
	}
	return nil
}
