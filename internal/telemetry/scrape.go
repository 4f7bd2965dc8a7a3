package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// Source is a runtime from which metric values are read when Prometheus reads the metrics.
type Source interface {
	// Namespaces returns the names of all namespaces that have metric values.
	Namespaces() []string
	CountRuns(ctx context.Context, call runtime.Call) ([]query.StatusCount, error)
	// Work returns the figures of all namespaces together.
	Work(ctx context.Context) dispatch.Stats
	Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error)
	Followers(ctx context.Context) (streams.Followers, error)
	// SubscriptionLags returns how many commits the slowest consumer and the slowest webhook are behind.
	SubscriptionLags(ctx context.Context) (map[machine.SubscriptionKind]uint64, error)
	// Quotas returns the quotas of namespaces and their use.
	Quotas() []quota.Figure
	// AccountFigures returns the amounts that runs have reserved and spent in each of the operator's accounts.
	AccountFigures() []budget.Figure
	// Limits returns the current counts of the operator's rate limits for model and tool calls.
	Limits() []ratelimit.Total
}

// Store is the store of a runtime, as far as metrics are about it.
type Store interface {
	// Sizes returns the sizes of the store on disk, in bytes.
	Sizes() (lsm, log int64)
	// LastBackup returns the time of the newest backup that is not after now. It is the zero time if there is none.
	LastBackup(now time.Time) (time.Time, error)
}

// maxOutboxScan bounds the number of unsent messages that are counted. A longer outbox is reported with this number.
const maxOutboxScan = 10_000

// scrapeEvery is how long values that were read are returned again, so that frequent scrapes do not slow down the
// runs.
const scrapeEvery = 5 * time.Second

// Watch adds the metrics of a runtime. Their values are read from its engine and store when Prometheus reads the
// metrics. unwatch removes them. The values of several runtimes are combined.
func (m *Metrics) Watch(source Source, store Store) (unwatch func()) {
	g := &gauges{source: source, of: store}
	m.runtimes.add(g)
	return func() {
		m.runtimes.remove(g)
		// Wait until a read in progress has finished, because the caller then closes the sources.
		g.mu.Lock()
		defer g.mu.Unlock()
		g.removed = true
	}
}

// gauges reads the current metric values of one runtime. They include totals that the runtime counts itself,
// for example refused calls. What [Metrics] counts is not part of it.
type gauges struct {
	source  Source
	of      Store
	mu      sync.Mutex
	removed bool
	last    []figure
	at      time.Time
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	runsDesc            = gauge("pawl_runs", "Runs in the store, by status.", "status")
	workersDesc         = gauge("pawl_workers", "Connected workers.")
	heldDesc            = gauge("pawl_work_held", "Turns and steps leased by connected workers, by kind.", "kind")
	waitingDesc         = gauge("pawl_work_waiting", "Ready turns and steps that are not leased yet.")
	unservedDesc        = gauge("pawl_work_unserved", "Ready turns and steps that no connected worker serves.")
	depthDesc           = gauge("pawl_outbox_depth", "Effects that are not sent or not answered yet, by kind; counted up to 10000.", "kind")
	ageDesc             = gauge("pawl_outbox_age_seconds", "Age of the oldest effect that is due, by kind.", "kind")
	watchersDesc        = gauge("pawl_watchers", "Streams that follow all runs.")
	lagDesc             = gauge("pawl_watcher_lag", "Commits that the slowest stream over all runs is behind.")
	subscriptionLagDesc = gauge("pawl_subscription_lag", "Commits that the slowest subscription is behind, connected or not, by kind: consumer, webhook.", "kind")
	backupDesc          = gauge("pawl_backup_last_success_timestamp_seconds", "Time of the newest backup that the store remembers, in seconds since 1970; 0 without one.")
	quotaDesc           = gauge("pawl_quota", "Quota of a namespace for a resource; without a namespace, of each principal.", "namespace", "resource")
	heldOfDesc          = gauge("pawl_quota_used", "Usage of a namespace's quota, by resource: open_runs, streams.", "namespace", "resource")
	overDesc            = gauge("pawl_quota_refused_total", "Calls that a quota refused; without a namespace, those of principals.", "namespace", "resource")
	limitOpen           = gauge("pawl_limit_open", "Calls of models and tools in flight, by limit.", "limit")
	limitWaiting        = gauge("pawl_limit_waiting", "Calls of models and tools that wait for a limit, by limit.", "limit")
	limitStarted        = gauge("pawl_limit_started_total", "Calls of models and tools started, by limit and whether they had waited.", "limit", "waited")
	limitWaited         = gauge("pawl_limit_wait_seconds_total", "Time that started calls of models and tools had waited, by limit.", "limit")
	sizeDesc            = gauge("pawl_store_size_bytes", "Size of the store on disk, by part: lsm or log.", "part")
)

// read returns the current metric values, which are at most scrapeEvery old. For a closed runtime it returns none.
func (g *gauges) read() []figure {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return nil
	}
	if time.Since(g.at) > scrapeEvery {
		g.last, g.at = nil, time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), scrapeEvery)
		defer cancel()
		g.runs(ctx)
		g.work(ctx)
		g.outbox(ctx)
		g.store(ctx)
		g.quotas()
		g.accounts()
		g.limits()
	}
	return g.last
}

func (g *gauges) add(d *prometheus.Desc, value float64, labels ...string) {
	g.last = append(g.last, figure{d, prometheus.GaugeValue, value, labels})
}

// runs reads the metric values about runs. If the runs of one namespace cannot be counted, all values are left
// out.
func (g *gauges) runs(ctx context.Context) {
	total := make(map[machine.Status]int)
	for _, ns := range g.source.Namespaces() {
		counts, err := g.source.CountRuns(ctx, runtime.Call{Namespace: ns, Principal: runtime.Principal{Subject: runtime.SidecarName, Scopes: runtime.ScopeRunsRead}})
		if err != nil {
			return
		}
		for _, c := range counts {
			total[c.Status] += c.Runs
		}
	}
	for status, runs := range total {
		g.add(runsDesc, float64(runs), status.String())
	}
}

func (g *gauges) work(ctx context.Context) {
	stats := g.source.Work(ctx)
	g.add(workersDesc, float64(stats.Workers))
	g.add(heldDesc, float64(stats.Turns), "turn")
	g.add(heldDesc, float64(stats.Steps), "step")
	g.add(waitingDesc, float64(stats.Waiting))
	g.add(unservedDesc, float64(stats.Unserved))
}

// outbox adds the number of waiting rows of outgoing work, and the age of the oldest one in seconds.
func (g *gauges) outbox(ctx context.Context) {
	for kind, name := range map[machine.OutboxKind]string{
		machine.OutboxStep: "step", machine.OutboxDelegation: "delegation", machine.OutboxCancel: "cancel",
	} {
		rows, err := g.source.Outbox(ctx, kind, maxOutboxScan)
		if err != nil {
			continue
		}
		age := 0.0
		if len(rows) > 0 {
			age = max(0, time.Since(time.Unix(0, rows[0].Due)).Seconds())
		}
		g.add(depthDesc, float64(len(rows)), name)
		g.add(ageDesc, age, name)
	}
}

// store adds the sizes of the store, the lag of its readers, and the time of the last backup.
func (g *gauges) store(ctx context.Context) {
	if followers, err := g.source.Followers(ctx); err == nil {
		g.add(watchersDesc, float64(followers.Streams))
		g.add(lagDesc, float64(followers.Lag))
	}
	for kind, lag := range g.lags(ctx) {
		g.add(subscriptionLagDesc, float64(lag), receiver(kind))
	}
	lsm, log := g.of.Sizes()
	g.add(sizeDesc, float64(lsm), "lsm")
	g.add(sizeDesc, float64(log), "log")
	if last, err := g.of.LastBackup(time.Now()); err == nil {
		g.add(backupDesc, max(0, seconds(last)))
	}
}

// lags returns how far the slowest subscription of each kind is behind. It returns none if they cannot be read.
func (g *gauges) lags(ctx context.Context) map[machine.SubscriptionKind]uint64 {
	lags, err := g.source.SubscriptionLags(ctx)
	if err != nil {
		return nil
	}
	return lags
}

func (g *gauges) count(d *prometheus.Desc, value float64, labels ...string) {
	g.last = append(g.last, figure{d, prometheus.CounterValue, value, labels})
}

func (g *gauges) limits() {
	for _, t := range g.source.Limits() {
		g.add(limitOpen, float64(t.Open), t.Limit)
		g.add(limitWaiting, float64(t.Queued), t.Limit)
		g.count(limitStarted, float64(t.Waited), t.Limit, "true")
		g.count(limitStarted, float64(t.Admitted-t.Waited), t.Limit, "false")
		g.count(limitWaited, t.WaitedFor.Seconds(), t.Limit)
	}
}

func (g *gauges) quotas() {
	for _, f := range g.source.Quotas() {
		labels := []string{f.Namespace, string(f.Resource)}
		if f.Most > 0 {
			g.add(quotaDesc, float64(f.Most), labels...)
		}
		if f.Resource == quota.OpenRuns || f.Resource == quota.Streams {
			g.add(heldOfDesc, float64(f.Open), labels...)
		}
		g.count(overDesc, float64(f.Refused), labels...)
	}
}
