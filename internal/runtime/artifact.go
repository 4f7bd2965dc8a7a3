package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// artifactsAt reads the values of a state's artifacts as of record seq, in the
// order of their names.
func (e *Engine) artifactsAt(ctx context.Context, key runKey, s *machine.State, seq uint64) ([]ArtifactValue, error) {
	values := make([]ArtifactValue, 0, len(s.Artifacts))
	for i := range s.Artifacts {
		value, written, err := e.artifact(ctx, key, &s.Artifacts[i], seq)
		if err != nil {
			return nil, err
		}
		if written {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b ArtifactValue) int { return strings.Compare(a.Name, b.Name) })
	return values, nil
}

// artifact folds the writes of one artifact up to record seq; false: there was
// none yet.
func (e *Engine) artifact(ctx context.Context, key runKey, head *machine.ArtifactHead, seq uint64) (ArtifactValue, bool, error) {
	value := ArtifactValue{Name: head.Name, Type: head.Type, Mode: head.Mode}
	versions, err := e.store.ArtifactVersions(ctx, key.ns, key.id, head.Name, seq, head.Mode == machine.Replace)
	if err != nil {
		return value, false, fmt.Errorf("runtime: versions of artifact %q of run %s: %w", head.Name, key.id, err)
	}
	if len(versions) == 0 {
		return value, false, nil
	}
	values := make([][]byte, 0, len(versions))
	for _, version := range versions {
		body, err := e.record(ctx, key, version.Seq)
		if err != nil {
			return value, false, err
		}
		for _, w := range Writes(body) {
			if w.Name == head.Name {
				values = append(values, w.Value)
			}
		}
	}
	value.Seq = versions[len(versions)-1].Seq
	value.Value = machine.FoldArtifact(head.Type, head.Mode, values)
	return value, true, nil
}

// Writes lists the artifacts that a record wrote.
func Writes(body machine.Body) []machine.ArtifactWrite {
	switch b := body.(type) {
	case *machine.Transition:
		return b.Artifacts
	case *machine.TurnCompleted:
		return b.Artifacts
	case *machine.StepResolved:
		return b.Artifacts
	case *machine.ArtifactsSet:
		return b.Artifacts
	case *machine.Ended:
		return b.Artifacts
	case *machine.Origin:
		return b.Artifacts
	}
	return nil
}
