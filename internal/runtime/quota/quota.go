package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxPrincipals bounds the number of principals whose recent use is remembered. A forgotten principal
// has its full rates again.
const maxPrincipals = 10_000

// key identifies one resource of one namespace or principal.
type key struct {
	Holder
	resource Resource
}

// Limits contains the table of bounds, and the use of the resources that this package counts. A nil
// Limits has no bounds. Safe for concurrent use.
type Limits struct {
	// names are the names of the configured namespaces by number.
	names map[uint32]string
	// served are the names of the configured namespaces, as a set.
	served map[string]bool
	table  atomic.Pointer[Table]

	mu sync.Mutex
	// spaces measure the rates of namespaces. There are at most as many meters as namespaces times
	// resources.
	spaces     map[key]*meter
	principals *cache.LRU[key, *meter]
	// open is the number of units that are in use. refusals is the number of requests that were refused.
	open     map[key]int64
	refusals map[key]int64
}

// New returns Limits for these namespaces, without bounds. [Limits.Replace] sets the bounds.
func New(namespaces map[string]uint32) *Limits {
	b := &Limits{
		names: map[uint32]string{}, served: map[string]bool{}, spaces: map[key]*meter{},
		principals: cache.New[key, *meter](maxPrincipals), open: map[key]int64{}, refusals: map[key]int64{},
	}
	for name, number := range namespaces {
		b.names[number], b.served[name] = name, true
	}
	return b
}

// Replace replaces the table of bounds. Units in use stay in use, even if they exceed a new bound.
// Further units are then refused.
func (b *Limits) Replace(t *Table) { b.table.Store(t) }

// Name returns the name of a namespace.
func (b *Limits) Name(number uint32) string {
	if b == nil {
		return ""
	}
	return b.names[number]
}

// BoundFor returns the bound of a namespace or principal for a resource. 0 means that there is no bound.
func (b *Limits) BoundFor(h Holder, r Resource) int64 {
	if b == nil {
		return 0
	}
	most, _ := b.table.Load().bound(h, r)
	return most
}

// CheckCount returns an error if count exceeds the bound of a namespace for a resource. The caller counts
// the resource and must ensure that no other call counts at the same time.
func (b *Limits) CheckCount(ns uint32, r Resource, count int) error {
	h := Namespace(b.Name(ns))
	if most := b.BoundFor(h, r); most > 0 && int64(count) > most {
		return b.refuse(h, r, most, int64(count), 0)
	}
	return nil
}

// Bounded reports whether a namespace has a bound for a resource.
func (b *Limits) Bounded(ns uint32, r Resource) bool { return b.BoundFor(Namespace(b.Name(ns)), r) > 0 }

// Spend takes one unit of a rate, for example one call of calls_per_second. The returned function gives
// the unit back and may be called once. now may be from any monotonic clock.
func (b *Limits) Spend(h Holder, r Resource, now time.Time) (back func(), err error) {
	return b.SpendElse(h, r, 0, now)
}

// SpendElse is [Limits.Spend] with a fallback: rate, in units per second, applies if the table has neither a bound nor
// a default bound for the resource. A rate of 0 means that there is no bound.
func (b *Limits) SpendElse(h Holder, r Resource, rate float64, now time.Time) (back func(), err error) {
	back = func() {}
	// The caller can send any name of a namespace. Data is kept only for configured namespaces, so that
	// invented names use no memory.
	if b == nil || !h.principal && !b.served[h.name] {
		return back, nil
	}
	most, said := b.table.Load().bound(h, r)
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

// meter returns the meter of a rate. If the rate has changed, it returns a new meter.
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

// Enter takes one unit of a resource for each of the holders, or none at all if one of them has no unit
// left. The returned function gives the units back.
func (b *Limits) Enter(r Resource, holders ...Holder) (leave func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range holders {
		if most, got := b.BoundFor(h, r), b.open[key{h, r}]+1; most > 0 && got > most {
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

// refusal counts a refusal and returns the error for the caller. The caller holds the mutex. All
// principals share one count, because callers could otherwise create counts by inventing names.
func (b *Limits) refusal(h Holder, r Resource, most, got int64, wait time.Duration) error {
	counted := h
	if h.principal {
		counted.name = ""
	}
	b.refusals[key{counted, r}]++
	reason := "QUOTA_EXCEEDED"
	if r == Calls || r == Starts {
		reason = "RATE_LIMITED"
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: reason, Quota: h.kind() + "." + string(r), Limit: most, Got: got, RetryAfter: int64(wait),
		Message: fmt.Sprintf("%s %q has all of its %s", h.kind(), h.name, r),
	}
}

// Figure is the present use of one resource by one namespace, or by all principals together, for
// metrics.
type Figure struct {
	// Namespace is the name of the namespace. It is "" if the figure is for all principals.
	Namespace string
	Resource  Resource
	// Most is the bound, or 0 if there is none. For all principals it is the default bound. Open is the
	// number of units in use, if this package counts them. For principals it is always 0. Refused is
	// the number of refused requests.
	Most, Open, Refused int64
}

// Figures returns the resources that have a bound, a refusal or a unit in use, ordered by namespace and
// resource.
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
			out = append(out, Figure{Namespace: name, Resource: r, Most: b.BoundFor(k.Holder, r), Open: b.open[k], Refused: b.refusals[k]})
		}
	}
	for _, r := range ofPrincipal {
		out = append(out, Figure{Resource: r, Most: b.BoundFor(Principal(""), r), Refused: b.refusals[key{Principal(""), r}]})
	}
	out = slices.DeleteFunc(out, func(f Figure) bool { return f.Most == 0 && f.Open == 0 && f.Refused == 0 })
	slices.SortFunc(out, func(x, y Figure) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Resource, y.Resource))
	})
	return out
}

// maxBurst is the largest number of units that may be taken at once, for a rate that is not in the
// table.
const maxBurst = 1 << 20

// pace is a rate per second, with the number of units that may be taken at once (burst). The zero value
// means that there is no limit.
type pace struct {
	every rate.Limit
	burst int
}

// paceOf returns how fast a resource may be used, for a bound of the operator's table. The bound is per second, for
// starts per minute, and all units of this time may be taken at once.
func paceOf(r Resource, most int64) pace {
	every := rate.Limit(most)
	if r == Starts {
		every /= 60
	}
	return pace{every, int(most)}
}

// perSecond returns the pace of a rate per second that is not in the table.
func perSecond(n float64) pace { return pace{rate.Limit(n), max(1, int(min(n, maxBurst)))} }

// meter is a token bucket of one resource. Its time never goes back: a caller with an earlier time, or
// a returned unit, would otherwise add the tokens of the same time twice.
type meter struct {
	pace
	limiter *rate.Limiter
	now     time.Time
}

func newMeter(p pace) *meter { return &meter{pace: p, limiter: rate.NewLimiter(p.every, p.burst)} }

// take takes one unit. If none is left, it returns the time until the next unit is available.
func (m *meter) take(now time.Time) (wait time.Duration, ok bool) {
	if now.After(m.now) {
		m.now = now
	}
	if m.limiter.AllowN(m.now, 1) {
		return 0, true
	}
	missing := 1 - m.limiter.TokensAt(m.now)
	return max(time.Duration(missing/float64(m.every)*float64(time.Second)), time.Millisecond), false
}

// giveBack returns one unit.
func (m *meter) giveBack() { m.limiter.ReserveN(m.now, -1) }

// Counter is the part of the store that [Runs] uses.
type Counter interface {
	// CountRuns counts the runs of a namespace that are in any of the statuses.
	CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error)
}

// Runs counts the runs that have not ended, of each namespace and of all namespaces together. It
// includes runs that are about to start. It counts the runs in the store when this process starts its
// first run. After that, each commit updates the count. An open run that an import adds is counted
// only after a restart. Safe for concurrent use.
type Runs struct {
	limits *Limits
	store  Counter
	// limit bounds the open runs of all namespaces together.
	limit int64

	// The mutex countMutex serializes the first count of the runs in the store. Concurrent starts wait for it.
	// Commits of other runs do not.
	countMutex sync.Mutex
	// The mutex loading is locked while the runs in the store are counted, so that no commit starts or
	// ends a run at the same time.
	loading sync.RWMutex
	loaded  atomic.Bool
	// total is the number of open runs of all namespaces. The mutex of limits guards it.
	total int64
}

// activeStatuses are the statuses of runs that have not ended.
var activeStatuses = []machine.Status{machine.Running, machine.Waiting}

// drainRetry is the pause that a start refused because of too many runs should make before a retry.
const drainRetry = time.Second

// NewRuns returns Runs for the namespaces of `book`. The store is not read yet.
func NewRuns(book *Limits, store Counter, limit int) *Runs {
	return &Runs{limits: book, store: store, limit: int64(limit)}
}

// Begin admits a new run of a principal. It returns an error if a bound would be exceeded: of all open
// runs, of the open runs of the namespace, or of starts per minute. The caller must call settle once,
// with whether the run was created.
func (r *Runs) Begin(ctx context.Context, ns uint32, principal string, now time.Time) (settle func(begun bool), err error) {
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	space := Namespace(r.limits.Name(ns))
	var back []func()
	undo := func() {
		for _, give := range back {
			give()
		}
	}
	for _, h := range []Holder{space, Principal(principal)} {
		give, err := r.limits.Spend(h, Starts, now)
		if err != nil {
			undo()
			return nil, err
		}
		back = append(back, give)
	}
	if err := r.enter(space); err != nil {
		undo()
		return nil, err
	}
	return func(begun bool) {
		if !begun {
			undo()
			r.left(space)
		}
	}, nil
}

// enter counts a new run of a namespace. It returns an error if the bound of all runs or that of the namespace is
// reached.
func (r *Runs) enter(space Holder) error {
	b, k := r.limits, key{space, OpenRuns}
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := r.total + 1; got > r.limit {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "RUNS_IN_FLIGHT",
			Message: "too many runs have not ended", Limit: r.limit, Got: got, RetryAfter: int64(drainRetry),
		}
	}
	if most, got := b.BoundFor(space, OpenRuns), b.open[k]+1; most > 0 && got > most {
		return b.refusal(space, OpenRuns, most, got, drainRetry)
	}
	r.total++
	b.open[k]++
	return nil
}

func (r *Runs) left(space Holder) {
	r.limits.mu.Lock()
	defer r.limits.mu.Unlock()
	r.total--
	r.limits.open[key{space, OpenRuns}]--
}

// load counts the runs in the store when the first run is started. It counts twice: before it blocks
// commits, and while it blocks them. The store caches the first result, so the second count is fast.
func (r *Runs) load(ctx context.Context) error {
	if r.loaded.Load() {
		return nil
	}
	if _, err := r.countOpen(ctx); err != nil {
		return err
	}
	r.countMutex.Lock()
	defer r.countMutex.Unlock()
	if r.loaded.Load() {
		return nil
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	open, err := r.countOpen(ctx)
	if err != nil {
		return err
	}
	r.limits.mu.Lock()
	defer r.limits.mu.Unlock()
	for k, n := range open {
		r.limits.open[k] = n
		r.total += n
	}
	r.loaded.Store(true)
	return nil
}

func (r *Runs) countOpen(ctx context.Context) (map[key]int64, error) {
	open := make(map[key]int64, len(r.limits.names))
	for ns, name := range r.limits.names {
		n, err := r.store.CountRuns(ctx, ns, slices.Clone(activeStatuses))
		if err != nil {
			return nil, fmt.Errorf("count runs of namespace %q: %w", name, err)
		}
		open[key{Namespace(name), OpenRuns}] = int64(n)
	}
	return open, nil
}

// BeginCommit must be called before a commit that changes a run from one state to the next. before is
// nil for a new run. Afterwards the caller must call [Runs.EndCommit].
func (r *Runs) BeginCommit(before, after *machine.State) {
	if counts(before, after) {
		r.loading.RLock()
	}
}

// EndCommit must be called after a commit that was announced by [Runs.BeginCommit]. stored reports whether the
// commit was stored. The result reports whether it created a run.
func (r *Runs) EndCommit(before, after *machine.State, stored bool) (begun bool) {
	if !counts(before, after) {
		return false
	}
	defer r.loading.RUnlock()
	if stored && after.Status.Terminal() && r.loaded.Load() {
		r.left(Namespace(r.limits.Name(after.Namespace)))
	}
	return stored && before == nil
}

// counts reports whether the commit creates or ends a run.
func counts(before, after *machine.State) bool {
	return before == nil || after.Status.Terminal() && !before.Status.Terminal()
}

// Resource is a resource that a quota can bound. The value is the name of the resource in the quota
// file.
type Resource string

// These are the resources. Principals can have bounds only for the first three.
const (
	Calls     Resource = "calls_per_second"
	Starts    Resource = "starts_per_minute"
	Streams   Resource = "streams"
	OpenRuns  Resource = "open_runs"
	Workers   Resource = "workers"
	Packs     Resource = "packs"
	Webhooks  Resource = "webhooks"
	Consumers Resource = "consumers"
)

var (
	ofPrincipal = []Resource{Calls, Starts, Streams}
	ofNamespace = append(slices.Clone(ofPrincipal), OpenRuns, Workers, Packs, Webhooks, Consumers)
)

// maxBound is the largest bound that a table may contain.
const maxBound = 1_000_000_000

// Bounds are the bounds of one namespace or principal, by resource. A bound of 0 means that there is
// none.
type Bounds map[Resource]int64

// Table contains the bounds of all namespaces and principals. It must not be changed after
// [Limits.Replace].
type Table struct {
	// Namespace and Principal are the default bounds. They apply to names without an entry in Namespaces
	// or Principals, and to each resource that the entry of a name does not set.
	Namespace, Principal Bounds
	// Namespaces and Principals are the bounds of single namespaces and principals, by name.
	Namespaces, Principals map[string]Bounds
}

// Holder is the namespace or principal that uses a resource.
type Holder struct {
	principal bool
	name      string
}

// Namespace returns the holder for one namespace.
func Namespace(name string) Holder { return Holder{name: name} }

// Principal returns the holder for one principal. Its use is counted over all namespaces.
func Principal(name string) Holder { return Holder{principal: true, name: name} }

func (h Holder) kind() string {
	if h.principal {
		return "principal"
	}
	return "namespace"
}

// bound returns the bound of a holder for a resource. 0 means that there is none. said reports whether the
// table sets it.
func (t *Table) bound(h Holder, r Resource) (most int64, said bool) {
	if t == nil {
		return 0, false
	}
	own, rest := t.Namespaces[h.name], t.Namespace
	if h.principal {
		own, rest = t.Principals[h.name], t.Principal
	}
	if n, ok := own[r]; ok {
		return n, true
	}
	most, said = rest[r]
	return most, said
}

// Validate returns one error with all faults of the table. served are the names of the configured
// namespaces.
func (t *Table) Validate(served []string) error {
	faults := append(t.Namespace.faults("namespace", ofNamespace), t.Principal.faults("principal", ofPrincipal)...)
	for _, name := range slices.Sorted(maps.Keys(t.Namespaces)) {
		if !slices.Contains(served, name) {
			faults = append(faults, fmt.Errorf("namespaces.%s: is not served; served are %s", name, strings.Join(served, ", ")))
		}
		faults = append(faults, t.Namespaces[name].faults("namespaces."+name, ofNamespace)...)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Principals)) {
		faults = append(faults, t.Principals[name].faults("principals."+name, ofPrincipal)...)
	}
	return errors.Join(faults...)
}

func (b Bounds) faults(at string, known []Resource) (faults []error) {
	for _, r := range slices.Sorted(maps.Keys(b)) {
		switch n := b[r]; {
		case !slices.Contains(known, r):
			faults = append(faults, fmt.Errorf("%s.%s: is none; there are %s", at, r, names(known)))
		case n < 0 || n > maxBound:
			faults = append(faults, fmt.Errorf("%s.%s: is %d, want 0 (no bound) to %d", at, r, n, maxBound))
		}
	}
	return faults
}

func names(known []Resource) string {
	var b strings.Builder
	for i, r := range known {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(r))
	}
	return b.String()
}
