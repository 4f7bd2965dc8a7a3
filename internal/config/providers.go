package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack"
)

// Bindings returns the bindings of the file and of --provider together: the name of a model for each provider key of
// packs. --provider takes precedence. The result is empty or nil if no key is bound.
func (c *Config) Bindings() map[string]string {
	out := maps.Clone(c.Providers)
	for _, text := range c.Provider {
		key, name, _ := strings.Cut(text, "=")
		if out == nil {
			out = make(map[string]string)
		}
		out[key] = name
	}
	return out
}

// providers checks the bindings of packs' provider keys to names of models. Whether these models exist is checked
// when the models are read.
func (c *Config) providers(l *list) {
	given := map[string]bool{}
	for i, text := range c.Provider {
		field := fmt.Sprintf("provider[%d]", i)
		key, name, ok := strings.Cut(text, "=")
		switch {
		case !ok || key == "" || name == "":
			l.add(field, "%q is no KEY=MODEL", text)
		case given[key]:
			l.add(field, "the key %q is given twice", key)
		case !pack.ProviderKey.MatchString(key):
			l.add(field, "the key %q is none of a pack: letters, digits, _ and -", key)
		}
		given[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(c.Providers)) {
		switch {
		case !pack.ProviderKey.MatchString(key):
			l.add("providers["+key+"]", "is no key of a pack: letters, digits, _ and -")
		case c.Providers[key] == "":
			l.add("providers["+key+"]", "needs the name of a model")
		}
	}
}
