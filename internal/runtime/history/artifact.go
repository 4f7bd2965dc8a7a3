package history

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Artifact is one artifact of a run with its value. With the mode Append the value combines all writes.
type Artifact struct {
	Name  string
	Type  string
	Mode  machine.Mode
	Value []byte
	// Seq is the seq of the record that wrote the artifact last.
	Seq uint64
}

// Artifacts returns the values that the artifacts of a run had after the record seq, ordered by name. s is a state of
// this run.
func (r *Reader) Artifacts(ctx context.Context, key machine.RunKey, s *machine.State, seq uint64) ([]Artifact, error) {
	values := make([]Artifact, 0, len(s.Artifacts))
	for i := range s.Artifacts {
		value, written, err := r.Artifact(ctx, key, &s.Artifacts[i], seq)
		if err != nil {
			return nil, err
		}
		if written {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
	return values, nil
}

// Artifact returns the value that one artifact had after the record seq, with all writes up to this record. It returns
// false if the artifact had not been written yet.
func (r *Reader) Artifact(ctx context.Context, key machine.RunKey, head *machine.ArtifactHead, seq uint64) (Artifact, bool, error) {
	value := Artifact{Name: head.Name, Type: head.Type, Mode: head.Mode}
	at := segmentKey{run: key, name: head.Name}
	f := &artifactBuilder{head: head}
	if head.Mode == machine.Append {
		f.segments = r.segments.upTo(at, seq)
	}
	if n := len(f.segments); n > 0 {
		value.Seq = f.segments[n-1].last
	}
	versions, err := r.versions(ctx, key, head, value.Seq, seq)
	if err != nil {
		return value, false, err
	}
	for _, version := range versions {
		written, err := r.writtenValue(ctx, key, head.Name, version.Seq)
		if err != nil {
			return value, false, err
		}
		f.add(version.Seq, written)
		value.Seq = version.Seq
	}
	if value.Seq == 0 {
		return value, false, nil
	}
	if f.grown {
		r.segments.keep(at, f.segments)
	}
	value.Value = f.value()
	return value, true, nil
}

// versions returns the writes of an artifact after the record `after`, up to the record seq. With the mode Replace it
// returns only the last of them.
func (r *Reader) versions(ctx context.Context, key machine.RunKey, head *machine.ArtifactHead, after, seq uint64) (versions []machine.ArtifactVersion, err error) {
	if head.Mode == machine.Replace {
		versions, err = r.store.ArtifactVersions(ctx, key.Namespace, key.ID, head.Name, seq, true)
	} else {
		versions, err = r.store.ArtifactVersionsAfter(ctx, key.Namespace, key.ID, head.Name, after, seq)
	}
	if err != nil {
		return nil, fmt.Errorf("runtime: versions of artifact %q of run %s: %w", head.Name, key.ID, err)
	}
	return versions, nil
}

// writtenValue returns the value that the record seq wrote to an artifact.
func (r *Reader) writtenValue(ctx context.Context, key machine.RunKey, name string, seq uint64) ([]byte, error) {
	body, err := r.Body(ctx, key, seq)
	if err != nil {
		return nil, err
	}
	for _, w := range machine.ArtifactWrites(body) {
		if w.Name == name {
			return w.Value, nil
		}
	}
	return nil, fmt.Errorf("runtime: record %d of run %s wrote no artifact %q", seq, key.ID, name)
}
