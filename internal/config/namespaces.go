package config

import (
	"regexp"
	"slices"
)

// maxNamespaces bounds the namespaces of one sidecar.
const maxNamespaces = 1000

// defaultNamespace is always served.
const defaultNamespace = "default"

// namespaceName is the allowed form of the name of a namespace. The API (pawl.v1) has the same rule for names in
// requests.
var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// digestName is the text before the colon in a pack reference by digest ("sha256:..."). So in NAMESPACE:PACK/AGENT it
// is not a namespace.
const digestName = "sha256"

// namespaces checks the names.
func (c *Config) namespaces(l *list) {
	if n := len(c.Namespaces); n > maxNamespaces {
		l.add("namespace", "there are %d, at most %d", n, maxNamespaces)
	}
	seen := make(map[string]bool)
	for _, name := range c.Namespaces {
		if !namespaceName.MatchString(name) {
			l.add("namespace", "%q is no name: want a-z first, then at most 62 of a-z, 0-9 and -", name)
		}
		if name == digestName {
			l.add("namespace", "%q is taken: it begins the digests of packs", name)
		}
		if seen[name] {
			l.add("namespace", "%q is given twice", name)
		}
		seen[name] = true
	}
}

// Served returns the names of all served namespaces.
func (c Config) Served() []string {
	if slices.Contains(c.Namespaces, defaultNamespace) {
		return slices.Clone(c.Namespaces)
	}
	return append([]string{defaultNamespace}, c.Namespaces...)
}
