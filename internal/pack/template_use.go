package pack

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/prompt"
)

// These constants bound the expanded size of templates without values, in bytes: for one template, and
// for the fragments that all templates include.
const (
	maxExpanded    = 1 << 20
	maxExpandedAll = 8 << 20
)

// templateUse contains the names that a template refers to. It includes the references of the
// template's fragments.
type templateUse struct {
	variables, artifacts map[string]bool
	// size is the length in bytes of the template and of the fragments that it includes, with their placeholders. depth is the nesting
	// depth of the fragments.
	size, depth int
	// literal is the first text in double braces that is not a valid placeholder.
	literal string
}

// templates resolves the templates of one pack. It resolves each fragment once.
type templates struct {
	fragments map[string]string
	uses      map[string]*templateUse
	open      map[string]bool
	// included is the total size of the fragments that were included so far.
	included int
}

var (
	errFragmentCycle = errors.New("the fragments contain each other")
	errFragmentDepth = fmt.Errorf("fragments nest more than %d deep", prompt.MaxDepth)
	errFragmentSize  = fmt.Errorf("the template expands to more than %d bytes", maxExpanded)
	errFragmentAll   = fmt.Errorf("the fragments of all templates expand to more than %d bytes", maxExpandedAll)
)

func newTemplates(fragments map[string]string) *templates {
	return &templates{fragments: fragments, uses: map[string]*templateUse{}, open: map[string]bool{}}
}

// use resolves a template. If it returns an error, the result contains the references before the error.
func (t *templates) use(src string) (*templateUse, error) {
	tpl := prompt.Parse(src)
	u := &templateUse{variables: map[string]bool{}, artifacts: map[string]bool{}, size: len(src)}
	if lits := tpl.Literals(); len(lits) > 0 {
		u.literal = source.Clip(src[lits[0]:], 24)
	}
	for _, ref := range tpl.Refs() {
		switch ref.Namespace {
		case prompt.Variable:
			u.variables[ref.Name] = true
		case prompt.Artifact:
			u.artifacts[ref.Name] = true
		case prompt.Fragment:
			if len(ref.Path) > 0 {
				return u, fmt.Errorf("the fragment %s is text and has no members", quote(ref.Name))
			}
			f, err := t.fragment(ref.Name)
			if err != nil {
				return u, err
			}
			if t.included += f.size; t.included > maxExpandedAll {
				return u, errFragmentAll
			}
			u.include(f)
		}
		if u.size > maxExpanded {
			return u, errFragmentSize
		}
	}
	if u.depth > prompt.MaxDepth {
		return u, errFragmentDepth
	}
	return u, nil
}

// fragment resolves a fragment by name.
func (t *templates) fragment(name string) (*templateUse, error) {
	if u := t.uses[name]; u != nil {
		return u, nil
	}
	src, ok := t.fragments[name]
	if !ok {
		return nil, fmt.Errorf("the fragment %s does not exist; the pack has: %s", quote(name), names(keys(t.fragments)))
	}
	if t.open[name] {
		return nil, fmt.Errorf("%w: %s", errFragmentCycle, quote(name))
	}
	if len(t.open) > prompt.MaxDepth {
		return nil, errFragmentDepth
	}
	t.open[name] = true
	defer delete(t.open, name)
	u, err := t.use(src)
	if err != nil {
		return nil, err
	}
	t.uses[name] = u
	return u, nil
}

// include adds the references of a fragment to the template that includes it.
func (u *templateUse) include(f *templateUse) {
	for v := range f.variables {
		u.variables[v] = true
	}
	for a := range f.artifacts {
		u.artifacts[a] = true
	}
	u.size = addCap(u.size, f.size)
	u.depth = max(u.depth, f.depth+1)
}

func addCap(a, b int) int { return min(a+b, maxExpanded+1) }

// names lists names in a message.
func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	out := ""
	for i, n := range list {
		if i == 20 {
			return fmt.Sprintf("%s and %d more", out, len(list)-i)
		}
		if i > 0 {
			out += ", "
		}
		out += source.Clip(n, 80)
	}
	return out
}
