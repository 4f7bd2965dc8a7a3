package model

import "sync/atomic"

// Table holds the endpoints that there are, the first one by default. Safe for concurrent
// use; the zero Table has none.
type Table struct {
	models atomic.Pointer[[]*Endpoint]
}

// NewTable makes a table of endpoints that nobody changes any more.
func NewTable(models []*Endpoint) *Table {
	t := &Table{}
	t.Replace(models)
	return t
}

// Replace puts other endpoints in force; calls under way end where they began.
func (t *Table) Replace(models []*Endpoint) { t.models.Store(&models) }

// All are the endpoints, in order.
func (t *Table) All() []*Endpoint {
	if at := t.models.Load(); at != nil {
		return *at
	}
	return nil
}

// Names are what they are called, in order.
func (t *Table) Names() []string {
	var names []string
	for _, m := range t.All() {
		names = append(names, m.Name)
	}
	return names
}

// Of is the endpoint of a name; nil: there is none.
func (t *Table) Of(name string) *Endpoint {
	for _, m := range t.All() {
		if m.Name == name {
			return m
		}
	}
	return nil
}
