package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxDepth bounds how deep fragments may be nested.
const MaxDepth = 8

// DefaultMaxBytes bounds a rendered template, in bytes, if Scope.MaxBytes is 0.
const DefaultMaxBytes = 4 << 20

// These are the errors of [Render]. All except ErrTooLarge name the fragment.
var (
	// ErrNoFragment means that a template names a fragment that the pack does not have, or a member of a fragment.
	ErrNoFragment = errors.New("the fragment does not exist")
	// ErrCycle means that a fragment contains itself.
	ErrCycle = errors.New("the fragment contains itself")
	// ErrDepth means that fragments are nested deeper than MaxDepth.
	ErrDepth = fmt.Errorf("fragments nest more than %d deep", MaxDepth)
	// ErrTooLarge means that the result would exceed Scope.MaxBytes, or that rendering it expands more placeholders than this number.
	ErrTooLarge = errors.New("the rendered text is too large")
)

// Scope contains the values for placeholders.
type Scope struct {
	// Variables are the values of variables, as encoding/json decodes them (json.Number and json.RawMessage included). A missing variable is
	// rendered as an empty text.
	Variables map[string]any
	// Artifacts are the values of artifacts: decoded JSON for JSON types, and strings for other types. A missing artifact is rendered as an
	// empty text.
	Artifacts map[string]any
	// Fragments are templates of the pack, by name. A missing fragment is an error.
	Fragments map[string]string
	// MaxBytes bounds the result; 0 = DefaultMaxBytes.
	MaxBytes int
}

// Render parses and renders a template. Strings are inserted unchanged, numbers and booleans as JSON, objects and
// arrays as compact JSON, null and missing values as empty text. Errors: [ErrNoFragment], [ErrCycle], [ErrDepth],
// [ErrTooLarge].
func Render(src string, scope Scope) (string, error) {
	return Parse(src).Render(scope)
}

// Render is like the function [Render].
func (t *Template) Render(scope Scope) (string, error) {
	r := renderer{scope: scope, limit: scope.MaxBytes, parsed: map[string]*Template{}}
	if r.limit <= 0 {
		r.limit = DefaultMaxBytes
	}
	if err := r.template(t); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

type renderer struct {
	scope Scope
	out   strings.Builder
	limit int
	// open are the names of the fragments that are being expanded, the outermost first.
	open []string
	// parsed are the fragments that were parsed so far. Each is parsed only once.
	parsed map[string]*Template
	// steps counts the work. It is bounded, because nested fragments can multiply the work without any output.
	steps int
}

func (r *renderer) template(t *Template) error {
	at := 0
	for _, ref := range t.refs {
		if err := r.write(t.src[at:ref.Offset]); err != nil {
			return err
		}
		if err := r.ref(ref); err != nil {
			return err
		}
		at = ref.End
	}
	return r.write(t.src[at:])
}

// ref writes the value of a placeholder.
func (r *renderer) ref(ref Ref) error {
	if r.steps++; r.steps > r.limit {
		return fmt.Errorf("%w: more than %d placeholders", ErrTooLarge, r.limit)
	}
	switch ref.Namespace {
	case Fragment:
		return r.fragment(ref)
	case Artifact:
		return r.write(Format(lookupPath(r.scope.Artifacts[ref.Name], ref.Path)))
	default:
		return r.write(Format(lookupPath(r.scope.Variables[ref.Name], ref.Path)))
	}
}

// fragment writes the expanded fragment of a placeholder.
func (r *renderer) fragment(ref Ref) error {
	src, ok := r.scope.Fragments[ref.Name]
	if !ok || len(ref.Path) > 0 {
		return fmt.Errorf("fragment %q: %w", ref.Name, ErrNoFragment)
	}
	if slices.Contains(r.open, ref.Name) {
		return fmt.Errorf("fragment %q: %w: %s", ref.Name, ErrCycle, strings.Join(append(r.open, ref.Name), " > "))
	}
	if len(r.open) >= MaxDepth {
		return fmt.Errorf("fragment %q: %w", ref.Name, ErrDepth)
	}
	t := r.parsed[ref.Name]
	if t == nil {
		t = Parse(src)
		r.parsed[ref.Name] = t
	}
	r.open = append(r.open, ref.Name)
	err := r.template(t)
	r.open = r.open[:len(r.open)-1]
	return err
}

func (r *renderer) write(s string) error {
	if r.out.Len()+len(s) > r.limit {
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, r.limit)
	}
	r.out.WriteString(s)
	return nil
}

// lookupPath returns the value at a path inside a value. It returns nil if there is no value.
func lookupPath(v any, path []Segment) any {
	for _, seg := range path {
		switch x := decoded(v).(type) {
		case map[string]any:
			if seg.Name == "" {
				return nil
			}
			v = x[seg.Name]
		case []any:
			if seg.Name != "" || seg.Index >= len(x) {
				return nil
			}
			v = x[seg.Index]
		default:
			return nil
		}
	}
	return v
}

// decoded decodes raw JSON. Invalid JSON counts as a missing value.
func decoded(v any) any {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return v
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var out any
	if dec.Decode(&out) != nil {
		return nil
	}
	return out
}

// Format renders one JSON value in the way in which a template does.
func Format(v any) string {
	switch x := decoded(v).(type) {
	case nil:
		return ""
	case string:
		return x
	case json.Number:
		return x.String()
	default:
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(x) != nil {
			return ""
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
}
