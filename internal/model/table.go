package model

import "sync/atomic"

// Table holds the configured endpoints; the first is the default. Safe for concurrent use; the zero Table has
// none.
type Table struct {
	models atomic.Pointer[[]*Endpoint]
}

// NewTable makes a table of endpoints, which must not be changed after that.
func NewTable(models []*Endpoint) *Table {
	t := &Table{}
	t.Replace(models)
	return t
}

// Replace replaces the endpoints; calls under way end at the endpoint where they began.
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

// Of returns the endpoint with a name; nil = there is none.
func (t *Table) Of(name string) *Endpoint {
	for _, m := range t.All() {
		if m.Name == name {
			return m
		}
	}
	return nil
}
