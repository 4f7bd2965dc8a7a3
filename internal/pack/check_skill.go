package pack

import (
	"regexp"
	"slices"
	"strings"
)

// mediaRange matches type/subtype, where the subtype may be a wildcard.
var mediaRange = regexp.MustCompile(`^[a-zA-Z0-9!#$&^_.+-]+/([a-zA-Z0-9!#$&^_.+-]+|\*)$|^\*/\*$`)

// skills checks the skill sources (PromptPack RFC 0008). It cannot check whether a path exists. Only
// the executor, which loads the skills, can do this.
func (c *checker) skills() {
	seen := map[string]bool{}
	for i := range c.doc.Skills {
		name := c.doc.Skills[i].Name
		if name == "" {
			continue
		}
		if seen[name] {
			c.f.warn("PP0008-1", pointer("skills", index(i), "name"), "Rename one of them.", "the inline skill %s is declared twice", quote(name))
		}
		seen[name] = true
	}
}

// stateSkills checks the filter of a state. The filter must be a path at, below or above a declared source, the name of an inline skill,
// or "none".
func (c *checker) stateSkills(at string, filter *string) {
	if filter == nil || *filter == "none" {
		return
	}
	if strings.TrimSpace(*filter) == "" {
		c.f.err("PP0008-3", at, "Write \"none\" to disable skills.", "skills is empty; allowed: a path or \"none\"")
		return
	}
	if c.skillSource(strings.TrimSuffix(*filter, "/")) {
		return
	}
	c.f.warn("PP0008-3", at, "Declare the source under skills.", "the skill filter %s matches no declared skill source", quote(*filter))
}

// skillSource reports whether a path is a skill source, or is below or above one.
func (c *checker) skillSource(want string) bool {
	if c.sources == nil {
		c.sources = []string{}
		for _, s := range c.doc.Skills {
			if source := strings.TrimSuffix(s.Path, "/") + s.Name; source != "" {
				c.sources = append(c.sources, source)
			}
		}
		slices.Sort(c.sources)
	}
	if _, found := slices.BinarySearch(c.sources, want); found {
		return true
	}
	// c.sources is sorted, so the sources below the path are next to one another. The search uses the path with a
	// slash, because "a-b" is sorted between "a" and "a/b".
	if at, _ := slices.BinarySearch(c.sources, want+"/"); at < len(c.sources) && strings.HasPrefix(c.sources[at], want+"/") {
		return true
	}
	// This loop looks for a source above the path. It makes one lookup for each element of the path. No
	// real path has more than 64 elements.
	for range 64 {
		i := strings.LastIndexByte(want, '/')
		if i <= 0 {
			return false
		}
		want = want[:i]
		if _, found := slices.BinarySearch(c.sources, want); found {
			return true
		}
	}
	return false
}
