package quota

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxPrincipals bounds the number of principals whose rates are remembered. If the rates of a principal
// are evicted, this principal has its full rates again.
const maxPrincipals = 10_000

// key is one resource of one holder.
type key struct {
	Holder
	resource Resource
}

// Limits holds the current bounds, and the usage of the resources that this package counts. A nil
// Limits has no bounds. Safe for concurrent use.
type Limits struct {
	// names are the served namespaces by number.
	names map[uint32]string
	// served are the same names as a set.
	served map[string]bool
	table  atomic.Pointer[Table]

	mu sync.Mutex
	// spaces are the rate meters of namespaces. There are at most as many as there are namespaces and
	// resources.
	spaces     map[key]*meter
	principals *cache.LRU[key, *meter]
	// open counts the units that are in use until they are released. refused counts the refusals.
	open    map[key]int64
	refused map[key]int64
}

// New returns Limits without any bound for these namespaces. [Limits.Replace] sets the bounds.
func New(namespaces map[string]uint32) *Limits {
	b := &Limits{
		names: map[uint32]string{}, served: map[string]bool{}, spaces: map[key]*meter{},
		principals: cache.New[key, *meter](maxPrincipals), open: map[key]int64{}, refused: map[key]int64{},
	}
	for name, number := range namespaces {
		b.names[number], b.served[name] = name, true
	}
	return b
}

// Replace applies a new table. Units that are in use stay in use, even if they exceed a new bound. Then
// no further units are granted.
func (b *Limits) Replace(t *Table) { b.table.Store(t) }

// Name returns the name of a namespace.
func (b *Limits) Name(number uint32) string {
	if b == nil {
		return ""
	}
	return b.names[number]
}

// Most returns the bound of a holder for a resource. 0 means that there is no bound.
func (b *Limits) Most(h Holder, r Resource) int64 {
	if b == nil {
		return 0
	}
	most, _ := b.table.Load().of(h, r)
	return most
}

// Within returns an error if count exceeds the bound of a namespace for a resource. The caller must
// prevent concurrent counting.
func (b *Limits) Within(ns uint32, r Resource, count int) error {
	h := Namespace(b.Name(ns))
	if most := b.Most(h, r); most > 0 && int64(count) > most {
		return b.refuse(h, r, most, int64(count), 0)
	}
	return nil
}

// Bounded reports whether a namespace has a bound for a resource.
func (b *Limits) Bounded(ns uint32, r Resource) bool { return b.Most(Namespace(b.Name(ns)), r) > 0 }

// Spend takes one unit of a rate. The returned function back returns the unit. The caller may call back
// at most once. now may be from any monotonic clock.
func (b *Limits) Spend(h Holder, r Resource, now time.Time) (back func(), err error) {
	return b.SpendElse(h, r, 0, now)
}

// SpendElse does the same as [Limits.Spend]. For holders without an entry in the table it uses the
// given rate per second. 0 means that there is no bound.
func (b *Limits) SpendElse(h Holder, r Resource, rate float64, now time.Time) (back func(), err error) {
	back = func() {}
	// The caller chooses the name of the namespace, so no data may be kept for a namespace that does
	// not exist.
	if b == nil || !h.principal && !b.served[h.name] {
		return back, nil
	}
	most, said := b.table.Load().of(h, r)
	p := paceOf(r, most)
	if !said {
		p = perSecond(rate)
	}
	if p.every == 0 {
		return back, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.meter(key{h, r}, p)
	if wait, ok := m.take(now); !ok {
		return nil, b.refusal(h, r, int64(p.burst), 0, wait)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		m.giveBack()
	}, nil
}

// meter returns the meter of a resource. It creates a new one if the pace has changed.
func (b *Limits) meter(k key, p pace) *meter {
	m := b.spaces[k]
	if k.principal {
		m, _ = b.principals.Get(k)
	}
	if m != nil && m.pace == p {
		return m
	}
	m = newMeter(p)
	if k.principal {
		b.principals.Put(k, m, 1)
	} else {
		b.spaces[k] = m
	}
	return m
}

// Enter takes one unit for each holder. It takes all units or none. The returned function leave
// releases them.
func (b *Limits) Enter(r Resource, holders ...Holder) (leave func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range holders {
		if most, got := b.Most(h, r), b.open[key{h, r}]+1; most > 0 && got > most {
			return nil, b.refusal(h, r, most, got, time.Second)
		}
	}
	for _, h := range holders {
		b.open[key{h, r}]++
	}
	return sync.OnceFunc(func() { b.release(r, holders) }), nil
}

func (b *Limits) release(r Resource, holders []Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range holders {
		k := key{h, r}
		if b.open[k]--; b.open[k] == 0 {
			delete(b.open, k)
		}
	}
}

func (b *Limits) refuse(h Holder, r Resource, most, got int64, wait time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal(h, r, most, got, wait)
}

// refusal counts a refusal and returns its error. The caller holds the mutex. All principals share one
// count, because callers choose the names of principals.
func (b *Limits) refusal(h Holder, r Resource, most, got int64, wait time.Duration) error {
	counted := h
	if h.principal {
		counted.name = ""
	}
	b.refused[key{counted, r}]++
	reason := "QUOTA_EXCEEDED"
	if r == Calls || r == Starts {
		reason = "RATE_LIMITED"
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: reason, Quota: h.kind() + "." + string(r), Limit: most, Got: got, RetryAfter: int64(wait),
		Message: fmt.Sprintf("%s %q has all of its %s", h.kind(), h.name, r),
	}
}

// Figure is the state of one resource of one namespace, or of all principals together.
type Figure struct {
	// Namespace is "" for principals.
	Namespace string
	Resource  Resource
	// Most is the bound; 0 means that there is none. Open is the number of units in use, if this
	// package counts them. Refused is the number of refusals.
	Most, Open, Refused int64
}

// Figures lists the resources that have a bound, a refusal or a unit in use. They are ordered by
// namespace and resource.
func (b *Limits) Figures() []Figure {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Figure
	for _, name := range b.names {
		for _, r := range ofNamespace {
			k := key{Namespace(name), r}
			out = append(out, Figure{Namespace: name, Resource: r, Most: b.Most(k.Holder, r), Open: b.open[k], Refused: b.refused[k]})
		}
	}
	for _, r := range ofPrincipal {
		out = append(out, Figure{Resource: r, Most: b.Most(Principal(""), r), Refused: b.refused[key{Principal(""), r}]})
	}
	out = slices.DeleteFunc(out, func(f Figure) bool { return f.Most == 0 && f.Open == 0 && f.Refused == 0 })
	slices.SortFunc(out, func(x, y Figure) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Resource, y.Resource))
	})
	return out
}
