package codegen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack"
)

// writers are the functions that write a module, by language.
var writers = map[string]func(*module) string{"python": python, "typescript": typescript}

// Languages returns the languages that [Generate] can write, sorted.
func Languages() []string { return []string{"python", "typescript"} }

// Generate returns a module with the types of a pack, in one of [Languages].
func Generate(p *pack.Pack, lang string) ([]byte, error) {
	write := writers[lang]
	if write == nil {
		return nil, fmt.Errorf("codegen: language %q is none of %s", lang, strings.Join(Languages(), ", "))
	}
	m, err := survey(p)
	if err != nil {
		return nil, fmt.Errorf("codegen: %w", err)
	}
	return []byte(write(m)), nil
}

// eachTurn calls do for the turn types of each prompt, with the words from which the names of these types are made.
// It begins with m.all, the types for a turn of any prompt, which get no words.
func (m *module) eachTurn(do func(words []string, t *turn)) {
	do(nil, &m.all)
	for i := range m.prompts {
		do([]string{m.prompts[i].prompt}, &m.prompts[i])
	}
}

// toolNamed returns the tool with the given name.
func (m *module) toolNamed(name string) *tool {
	i := slices.IndexFunc(m.tools, func(t tool) bool { return t.name == name })
	return &m.tools[i]
}

// mayBeLeftOut reports whether a call of the tool needs no arguments.
func (t *tool) mayBeLeftOut() bool {
	if t.arguments == nil {
		return true
	}
	whole := t.arguments.resolved()
	if whole.kind != object {
		return whole.kind != union
	}
	for _, needed := range whole.required {
		if needed {
			return false
		}
	}
	return true
}
