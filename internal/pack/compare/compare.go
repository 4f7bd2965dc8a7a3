package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// Kind is the kind of a difference.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Effects on a bound.
const (
	Raised  = "raised"
	Lowered = "lowered"
)

// Change is one difference between two packs.
type Change struct {
	Kind Kind `json:"kind"`
	// Area is the part of the pack that contains the value, for example "state", "event", "bound", "tool" or "prompt".
	Area string `json:"area"`
	// Name names the value for readers, for example "max_visits of repair".
	Name string `json:"name"`
	// Pointer is the RFC 6901 JSON pointer of the value. An item of a list is named by its key, its id or its text.
	Pointer string `json:"pointer"`
	// Bound is Raised or Lowered for a number that bounds runs. An absent bound counts as its default. Without a default, it is higher
	// than every number.
	Bound string `json:"bound,omitempty"`
	// Old and New are the values as JSON. One of them is nil if the value was added or removed.
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new,omitempty"`
	// Lines is the unified diff of a changed text that has several lines. It is "" for other values.
	Lines string `json:"lines,omitempty"`
	// NewRuns describes the effect on runs that start with the new pack.
	NewRuns string `json:"new_runs"`
	// RunningRuns describes what the operator must keep for runs that started with the old pack. "" means nothing.
	RunningRuns string `json:"running_runs,omitempty"`
	// Forks describes which forks of runs of the old pack cannot use the new pack. "" means none.
	Forks string `json:"forks,omitempty"`

	rank int
}

// Version names one of the two packs.
type Version struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
	// Termination is the termination analysis of the entry. nil means that the pack has no workflow.
	Termination *pack.Termination `json:"termination"`
}

// Ref returns id@version.
func (v Version) Ref() string { return v.ID + "@" + v.Version }

// Report is the result of a comparison.
type Report struct {
	Old Version `json:"old"`
	New Version `json:"new"`
	// Same reports whether the packs have the same digest.
	Same bool `json:"same"`
	// Runs are sentences that apply to all runs. They say which runs use the new pack and which continue with the old one.
	Runs []string `json:"runs"`
	// Changes are sorted by importance: states and events first, descriptions and values without a rule last.
	Changes []Change `json:"changes"`
}

// Packs compares two packs. An error means that the canonical form of a pack cannot be read, which is a bug of package pack.
func Packs(was, is *pack.Pack) (*Report, error) {
	r := &Report{Old: versionOf(was), New: versionOf(is), Same: was.Digest == is.Digest, Changes: []Change{}}
	r.Runs = runsOf(r)
	if r.Same {
		return r, nil
	}
	oldTree, err := tree(was)
	if err != nil {
		return nil, err
	}
	newTree, err := tree(is)
	if err != nil {
		return nil, err
	}
	if r.Changes = append(r.Changes, changesOf(oldTree, newTree)...); len(r.Changes) == 0 {
		r.Runs = append(r.Runs, "Both packs say the same in different words.")
	}
	return r, nil
}

// changesOf returns the differences of two documents in the order of the rules.
func changesOf(was, is map[string]any) []Change {
	w := &walk{}
	w.value(nil, side{was, true}, side{is, true})
	slices.SortStableFunc(w.changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Pointer, b.Pointer))
	})
	return w.changes
}

func versionOf(p *pack.Pack) Version {
	return Version{ID: p.ID, Version: p.Version, Digest: p.Digest, Termination: p.Analyze()}
}

// tree returns the document of a pack as decoded JSON.
func tree(p *pack.Pack) (map[string]any, error) {
	root, fault := source.ParseJSON(p.Canonical, func(source.DuplicateName) {})
	if fault != nil {
		return nil, fmt.Errorf("compare: %s@%s: %w", p.ID, p.Version, fault)
	}
	doc, _ := root.Plain().(map[string]any)
	return doc, nil
}

// runsOf returns the sentences that apply to all runs.
func runsOf(r *Report) []string {
	was, is := r.Old.Ref(), r.New.Ref()
	keep := fmt.Sprintf("Runs that have started keep %s (%s), with its states, bounds, tools and prompts.", was, shortDigest(r.Old.Digest))
	switch {
	case r.Same:
		return []string{"The packs have the same digest: nothing changes."}
	case r.Old.ID != r.New.ID:
		return []string{fmt.Sprintf("NEW is another pack: runs that name %s do not get it.", r.Old.ID), keep}
	case was == is:
		return []string{fmt.Sprintf("Where OLD is registered, NEW is refused (PACK_VERSION_TAKEN): give it another version than %s.", r.New.Version), keep}
	default:
		return []string{
			fmt.Sprintf("When NEW is registered, new runs that name %s get %s. With --keep-default, only runs that name %s get it.", r.New.ID, is, is),
			keep,
		}
	}
}

// shortDigest returns the first characters of a digest.
func shortDigest(digest string) string {
	return digest[:min(len(digest), len("sha256:")+12)]
}

// side is a value in one of the two compared documents. present reports whether the document has it.
type side struct {
	value   any
	present bool
}

// walk collects the differences between two documents.
type walk struct{ changes []Change }

// value compares the values that two documents have at a place. A difference is one change if one of the values is a scalar, if the rule
// of the place is atomic, or if only one document has a value at the place of a rule without **. Otherwise objects and lists are compared
// member by member. If only the order of a list differs, that is one change.
func (w *walk) value(at []string, oldSide, is side) {
	if reflect.DeepEqual(oldSide, is) {
		return
	}
	oldSide.value, is.value = longForm(at, oldSide.value), longForm(at, is.value)
	if reflect.DeepEqual(oldSide, is) {
		return
	}
	r, rank, names := ruleAt(at)
	oldMembers, oldOrder := members(oldSide)
	newMembers, newOrder := members(is)
	nested := oldMembers != nil && newMembers != nil
	unit := r != nil && (r.isAtomic || oldSide.present != is.present && !strings.HasSuffix(r.at, "**"))
	if !nested || unit || len(oldMembers)+len(newMembers) == 0 {
		w.add(at, r, rank, names, oldSide, is)
		return
	}
	before := len(w.changes)
	for _, name := range union(oldMembers, newMembers) {
		w.value(append(slices.Clone(at), name), oldMembers[name], newMembers[name])
	}
	if len(w.changes) == before && !slices.Equal(oldOrder, newOrder) {
		w.changes = append(w.changes, Change{
			Kind: Changed, Area: "order", Name: strings.Join(at, "."), Pointer: source.Pointer(at...), Old: text2(oldSide), New: text2(is),
			NewRuns: "Only the order of the list changes.", rank: len(rules) - 1,
		})
	}
}

// add adds a change.
func (w *walk) add(at []string, r *rule, rank int, names []string, oldSide, is side) {
	c := Change{Pointer: source.Pointer(at...), Old: text2(oldSide), New: text2(is), rank: rank}
	switch {
	case !oldSide.present:
		c.Kind = Added
	case !is.present:
		c.Kind = Removed
	default:
		c.Kind = Changed
	}
	if r == nil {
		r, names = &rules[len(rules)-1], []string{strings.Join(at, ".")}
		c.rank = len(rules) - 1
	}
	r.describe(&c, names, oldSide, is)
	before, isText := oldSide.value.(string)
	after, isTextToo := is.value.(string)
	if isText && isTextToo && strings.Contains(before+after, "\n") {
		c.Lines = udiff.Unified("old", "new", before+"\n", after+"\n")
	}
	w.changes = append(w.changes, c)
}

// longForm returns the long form of a value that the pack may write in a short form.
func longForm(at []string, v any) any {
	switch {
	case matches("workflow/engine/x_pawl/retry", at), matches("workflow/engine/x_pawl/tools/*/retry", at), matches("workflow/engine/x_pawl/model_calls/retry", at):
		if n, ok := v.(float64); ok {
			return map[string]any{"max_attempts": n}
		}
	case matches("requires/providers/*", at):
		if key, ok := v.(string); ok {
			return map[string]any{"key": key, "role": "llm", "required": true}
		}
		if long, ok := v.(map[string]any); ok && long["required"] == nil {
			long = maps.Clone(long)
			long["required"] = true
			return long
		}
	}
	return v
}

// members returns the members of an object, or the items of a list, by name. For a list it also returns the names in order. A missing
// value has no members. For scalars it returns nil.
func members(s side) (map[string]side, []string) {
	out := map[string]side{}
	if !s.present {
		return out, nil
	}
	switch v := s.value.(type) {
	case map[string]any:
		for name, m := range v {
			out[name] = side{m, true}
		}
		return out, nil
	case []any:
		order := make([]string, 0, len(v))
		last := map[string]int{}
		for _, item := range v {
			name := nameOf(item)
			for base := name; out[name].present; {
				last[base] = max(last[base], 1) + 1
				name = fmt.Sprintf("%s (%d)", base, last[base])
			}
			out[name] = side{item, true}
			order = append(order, name)
		}
		return out, order
	}
	return nil, nil
}

// nameOf returns the name that identifies an item of a list in both documents.
func nameOf(item any) string {
	switch v := item.(type) {
	case string:
		return v
	case map[string]any:
		for _, key := range []string{"id", "key", "name", "path", "type"} {
			if name, ok := v[key].(string); ok {
				return name
			}
		}
	}
	return text(item)
}

// union returns the names of two maps, sorted.
func union(a, b map[string]side) []string {
	var names []string
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		if !a[name].present {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// text returns a value as JSON with sorted names.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}

func text2(s side) json.RawMessage {
	if !s.present {
		return nil
	}
	return json.RawMessage(text(s.value))
}
