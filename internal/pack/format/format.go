package format

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// ErrComments means that the YAML writer would lose or change a comment.
var ErrComments = errors.New("a comment would be lost; move comments of this file to lines of their own above a key")

// ErrUnstable means that each time the document is formatted, it changes again.
var ErrUnstable = errors.New("the form changes each time it is written; move comments of this file to lines of their own above a key")

// maxPasses limits how often the document is written until it no longer changes. A comment can move once, to the line of its value.
const maxPasses = 4

// Source returns a document in the standard form: JSON as JSON and YAML as YAML. It must be possible to read the document, but it may
// be a pack with errors. Errors: [*source.Fault], [ErrComments], [ErrUnstable].
func Source(src []byte) ([]byte, error) {
	root, err := read(src)
	if err != nil {
		return nil, err
	}
	known, err := knownOrder()
	if err != nil {
		return nil, err
	}
	out, stable := bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), false
	for range maxPasses {
		next, err := write(out, known)
		if err != nil {
			return nil, err
		}
		if stable = bytes.Equal(out, next); stable {
			break
		}
		out = next
	}
	if !stable {
		return nil, ErrUnstable
	}
	result, err := read(out)
	if err != nil {
		return nil, fmt.Errorf("format: the result cannot be read: %w", err)
	}
	if !reflect.DeepEqual(root.Plain(), result.Plain()) {
		return nil, errors.New("format: the result has other values")
	}
	return out, nil
}

// read reads a document. A name that occurs twice in an object is a fault, because only one of the values could be written.
func read(src []byte) (*source.Node, error) {
	var twice *source.Fault
	root, fault := source.Read(src, source.DefaultLimits(), func(t source.DuplicateName) {
		if twice == nil {
			twice = &source.Fault{Code: source.CodeDuplicate, Line: t.Line, Col: t.Col, Msg: fmt.Sprintf("the name %q is given twice in one object", t.Path[len(t.Path)-1])}
		}
	})
	switch {
	case fault != nil:
		return nil, fault
	case twice != nil:
		return nil, twice
	}
	return root, nil
}

// write writes a readable document once.
func write(src []byte, known *order) ([]byte, error) {
	if source.IsJSON(src) {
		root, err := read(src)
		if err != nil {
			return nil, err
		}
		return writeJSON(root, known), nil
	}
	return writeYAML(src, known)
}
