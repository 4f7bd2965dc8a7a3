package model

import (
	"cmp"
	"sync/atomic"
)

// DefaultProvider is the provider key of the primary model. A prompt that names no key uses it.
const DefaultProvider = "default"

// Table holds the configured endpoints and the models of the provider keys. The first endpoint is the default. The zero Table has no
// endpoints. Safe for concurrent use.
type Table struct {
	models atomic.Pointer[[]*Endpoint]
	// providers maps the provider keys of packs to names of endpoints. It never changes.
	providers map[string]string
}

// NewTable returns a table of endpoints. providers maps the provider keys of packs to names of endpoints; nil means that no key is bound.
// The caller must not change the arguments after that.
func NewTable(models []*Endpoint, providers map[string]string) *Table {
	t := &Table{providers: providers}
	t.Replace(models)
	return t
}

// Replace replaces the endpoints. Active calls continue at the endpoint where they began.
func (t *Table) Replace(models []*Endpoint) { t.models.Store(&models) }

// Endpoints returns the endpoints, in order.
func (t *Table) Endpoints() []*Endpoint {
	if at := t.models.Load(); at != nil {
		return *at
	}
	return nil
}

// Names returns the names of the endpoints, in order.
func (t *Table) Names() []string {
	var names []string
	for _, m := range t.Endpoints() {
		names = append(names, m.Name)
	}
	return names
}

// Endpoint returns the endpoint with a name, or nil if there is none.
func (t *Table) Endpoint(name string) *Endpoint {
	for _, m := range t.Endpoints() {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Providers returns the bindings of the provider keys to names of endpoints. The caller must not change them.
func (t *Table) Providers() map[string]string { return t.providers }

// Bound returns the name of the endpoint to which a provider key is bound, or "" if the key is not bound. The key "" means
// [DefaultProvider].
func (t *Table) Bound(key string) string { return t.providers[cmp.Or(key, DefaultProvider)] }
