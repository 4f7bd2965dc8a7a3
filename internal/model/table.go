package model

import "sync/atomic"

// Table holds the configured endpoints. The first endpoint is the default. The zero Table has no endpoints. Safe for concurrent use.
type Table struct {
	models atomic.Pointer[[]*Endpoint]
}

// NewTable returns a table of endpoints. The caller must not change the endpoints after that.
func NewTable(models []*Endpoint) *Table {
	t := &Table{}
	t.Replace(models)
	return t
}

// Replace replaces the endpoints. Active calls continue at the endpoint where they began.
func (t *Table) Replace(models []*Endpoint) { t.models.Store(&models) }

// All returns the endpoints, in order.
func (t *Table) All() []*Endpoint {
	if at := t.models.Load(); at != nil {
		return *at
	}
	return nil
}

// Names returns the names of the endpoints, in order.
func (t *Table) Names() []string {
	var names []string
	for _, m := range t.All() {
		names = append(names, m.Name)
	}
	return names
}

// Of returns the endpoint with a name, or nil if there is none.
func (t *Table) Of(name string) *Endpoint {
	for _, m := range t.All() {
		if m.Name == name {
			return m
		}
	}
	return nil
}
