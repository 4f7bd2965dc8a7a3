package timetravel

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ChangeKind says how a value differs between the two sides of a comparison.
type ChangeKind uint8

const (
	// Added means that only the second side has the value.
	Added ChangeKind = iota + 1
	// Removed means that only the first side has the value.
	Removed
	// Changed means that the two sides have different values.
	Changed
)

// ValueChange is one difference between two JSON documents.
type ValueChange struct {
	// Path is a JSON pointer to the value in the documents that have it.
	Path string
	Kind ChangeKind
	// Base and Other are the values on the first and the second side, as compact JSON. A value that
	// does not exist is nil.
	Base, Other []byte
}

// ArtifactChange is an artifact that differs between the two sides of a comparison.
type ArtifactChange struct {
	Name, Type string
	Kind       ChangeKind
	// BaseBytes and OtherBytes are the sizes of the values on the first and the second side.
	BaseBytes, OtherBytes int
	// JSON lists the differences of two JSON values. Text is a unified diff of two texts. They are
	// set only for the kind Changed.
	JSON []ValueChange
	Text string
	// Truncated reports whether the differences exceeded their bound, so that some were left out.
	Truncated bool
}

// diffArtifacts compares two lists of artifacts that are ordered by name.
func diffArtifacts(a, b []history.Artifact) ([]ArtifactChange, error) {
	var changes []ArtifactChange
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			changes = append(changes, ArtifactChange{Name: a[0].Name, Type: a[0].Type, Kind: Removed, BaseBytes: len(a[0].Value)})
			a = a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			changes = append(changes, ArtifactChange{Name: b[0].Name, Type: b[0].Type, Kind: Added, OtherBytes: len(b[0].Value)})
			b = b[1:]
		default:
			if !bytes.Equal(a[0].Value, b[0].Value) {
				change, err := diffArtifact(&a[0], &b[0])
				if err != nil {
					return nil, err
				}
				changes = append(changes, change)
			}
			a, b = a[1:], b[1:]
		}
	}
	return changes, nil
}

// diffArtifact compares two values of an artifact. Artifacts of different types or of bytes get no list of
// differences.
func diffArtifact(a, b *history.Artifact) (ArtifactChange, error) {
	change := ArtifactChange{Name: a.Name, Type: b.Type, Kind: Changed, BaseBytes: len(a.Value), OtherBytes: len(b.Value)}
	if a.Type != b.Type {
		return change, nil
	}
	var err error
	switch machine.FormOf(a.Type) {
	case machine.FormJSON:
		change.JSON, change.Truncated, err = diffJSON(a.Value, b.Value)
		if err != nil {
			err = fmt.Errorf("timetravel: compare artifact %q: %w", a.Name, err)
		}
	case machine.FormText:
		change.Text, change.Truncated = diffText(a.Name, string(a.Value), string(b.Value))
	}
	return change, err
}

// diffText returns a unified diff of two texts, with three lines of context, and whether it was
// cut.
func diffText(name, a, b string) (string, bool) {
	text := udiff.Unified(name, name, a, b)
	if len(text) <= maxText {
		return text, false
	}
	cut := strings.LastIndexByte(text[:maxText], '\n') + 1
	if cut < maxText/2 {
		// The line at the bound is longer than half of the bound, so it is cut between two characters.
		for cut = maxText - utf8.UTFMax; !utf8.RuneStart(text[cut]); {
			cut--
		}
	}
	return text[:cut], true
}
