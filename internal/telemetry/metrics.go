package telemetry

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-dev/pawl/internal/build"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Metrics counts commits and exports the counts to Prometheus. The names are OpenTelemetry's names in the form
// of Prometheus, with base units as suffix. No label contains a run, a principal or a text from a caller,
// except the names of models, whose number is bounded. The metrics that packs declare have names of the packs,
// and the id of the pack and of the eval as labels.
type Metrics struct {
	registry *prometheus.Registry

	started     prometheus.Counter
	ended       *prometheus.CounterVec
	transitions *prometheus.CounterVec
	turns       *prometheus.CounterVec
	violations  *prometheus.CounterVec
	evals       *prometheus.CounterVec
	packs       *evalMetrics
	steps       *prometheus.CounterVec
	expiries    prometheus.Counter
	tokens      *prometheus.CounterVec
	cost        *prometheus.CounterVec
	used        *prometheus.HistogramVec
	commit      prometheus.Histogram
	sync        prometheus.Histogram
	group       prometheus.Histogram
	committed   prometheus.Gauge
	exported    *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	faults      *prometheus.CounterVec
	refused     *prometheus.CounterVec
	ignored     *prometheus.CounterVec
	refusals    labels[[2]string]
	models      labels[string]
	failures    *prometheus.CounterVec
	retained    *prometheus.CounterVec
	freed       *prometheus.CounterVec
	forgotten   *prometheus.CounterVec
	instants    *prometheus.CounterVec

	causes map[machine.Cause]prometheus.Counter
	// finals are the last states of runs that ended, which [Metrics.Run] processes.
	finals   chan final
	runtimes *runtimes
}

// NewMetrics returns the metrics of a sidecar.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), finals: make(chan final, 1024), runtimes: &runtimes{}}
	m.countRuns()
	m.countWork()
	m.countDeliveries()
	m.countAnswers()
	m.countWorkerFailures()
	m.countRetention()
	m.countSchedules()
	m.timeCommits()
	m.build(build.Version())
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.runtimes)
	m.causes = map[machine.Cause]prometheus.Counter{}
	for cause, name := range map[machine.Cause]string{
		machine.CauseEntry: "entry", machine.CauseEvent: "event", machine.CauseMaxVisits: "max_visits", machine.CauseTimeout: "timeout",
		machine.CauseBudget: "budget",
	} {
		m.causes[cause] = m.transitions.WithLabelValues(name)
	}
	return m
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

func (m *Metrics) countRuns() {
	m.started = m.counter("pawl_runs_started_total", "Runs started, forks included.")
	m.ended = m.counters("pawl_runs_ended_total", "Runs ended, by status and reason (the part before the colon).", "status", "reason")
	m.transitions = m.counters("pawl_transitions_total", "Entries into a state, by cause.", "cause")
	m.used = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pawl_run_budget_used_ratio", Help: "Share of each budget that a run had used at its end.",
		Buckets: []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1},
	}, []string{"budget"})
	m.registry.MustRegister(m.used)
}

// countWork creates the metrics of turns, steps, evals and usage.
func (m *Metrics) countWork() {
	m.turns = m.counters("pawl_turns_total", "Executions of turns that ended, by outcome and attempt (1, 2, 3, 4+).", "outcome", "attempt")
	m.steps = m.counters("pawl_steps_total", "Executions of steps that ended, by outcome and attempt (1, 2, 3, 4+).", "outcome", "attempt")
	m.violations = m.counters("pawl_validator_hits_total", "Attempts of turns that failed for a validator of their prompt, by the type of the validator.", "type")
	m.evals = m.counters("pawl_evals_total", "Results of evals of packs, by the eval's trigger and outcome: passed, failed, error.", "trigger", "outcome")
	m.packs = &evalMetrics{families: map[string]*evalFamily{}, dropped: m.counter(
		"pawl_eval_metrics_dropped_total", "Results of evals that a metric of a pack did not show, because its name, kind or range conflicts with another one, or there are too many series.")}
	m.registry.MustRegister(m.packs)
	m.expiries = m.counter("pawl_lease_expiries_total", "Turns whose lease expired while their worker was connected.")
	m.tokens = m.counters("pawl_usage_tokens_total", "Tokens that runs consumed, by type and model, without those of agents that they called.", "type", "model")
	m.cost = m.counters("pawl_usage_cost_usd_total", "Cost of what runs consumed, by model, in US dollars, without that of agents that they called.", "model")
	m.exported = m.counters("pawl_trace_spans_total", "Spans, by outcome: exported, lost (not accepted by the collector).", "outcome")
	for _, outcome := range []string{"exported", "lost"} {
		m.exported.WithLabelValues(outcome) // so that a rate over them starts correctly
	}
}

func (m *Metrics) timeCommits() {
	fast := prometheus.ExponentialBuckets(0.0001, 2, 16)
	m.commit = m.histogram("pawl_commit_duration_seconds", "Time from commit request to acknowledgement, including the wait for group commit.", fast)
	m.sync = m.histogram("pawl_sync_duration_seconds", "Duration of one synced transaction of the store.", fast)
	m.committed = prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_last_commit_timestamp_seconds", Help: "Time of the last synced transaction of the store, in seconds since 1970; 0 before the first."})
	m.registry.MustRegister(m.committed)
	m.group = m.histogram("pawl_commit_group_size", "Commits in one synced transaction.", prometheus.ExponentialBuckets(1, 2, 11))
}

// Handler returns the HTTP handler that serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4})
}

// Observe counts a commit. graphs returns the compiled packs of the runtime that made the commit. Observe never waits.
func (m *Metrics) Observe(b *machine.Batch, graphs Graphs) {
	if lost, ok := b.Input.Command.(machine.LoseTurn); ok && lost.LeaseExpired {
		m.expiries.Inc()
	}
	if b.Prev == 0 {
		m.started.Inc()
	}
	for i := range b.Records {
		m.record(b.Records[i].Body, final{b.State, graphs})
	}
	for i := range b.Settled {
		m.usage(&b.Settled[i])
	}
}

// record counts one record of a commit in the metrics. of describes the run after the commit.
func (m *Metrics) record(body machine.Body, of final) {
	switch r := body.(type) {
	case *machine.Transition:
		if c := m.causes[r.Cause]; c != nil {
			c.Inc()
		}
	case *machine.TurnCompleted:
		m.turns.WithLabelValues("completed", attempt(r.Attempt)).Inc()
	case *machine.TurnFailed:
		m.turns.WithLabelValues("failed", attempt(r.Attempt)).Inc()
		if r.Violation != nil {
			m.violations.WithLabelValues(r.Violation.Type).Inc()
		}
	case *machine.Evaluated:
		m.evalResults(of.state.PackID, r.Results)
	case *machine.TurnAbandoned:
		m.turns.WithLabelValues("abandoned", attempt(r.Attempt)).Inc()
	case *machine.Stopped:
		if r.TurnSeq != 0 {
			m.turns.WithLabelValues("stopped", attempt(r.Attempt)).Inc()
		}
	case *machine.StepResolved:
		m.steps.WithLabelValues(outcome(r), attempt(r.Attempt)).Inc()
	case *machine.StepRejected:
		m.steps.WithLabelValues("rejected", "1").Inc()
	case *machine.StepCancelled:
		m.steps.WithLabelValues("cancelled", "1").Inc()
	case *machine.Ended:
		reason, _, _ := strings.Cut(r.Reason, ":")
		m.ended.WithLabelValues(r.Status.String(), reason).Inc()
		select {
		case m.finals <- of:
		default: // the loop in Run is too slow, so these budgets are not measured
		}
	}
}

func outcome(r *machine.StepResolved) string {
	switch {
	case r.Unknown:
		return "unknown"
	case r.OK:
		return "ok"
	}
	return "error"
}

// attempt returns the label value for the number of an attempt. It bounds the number of different values.
func attempt(n int) string {
	if n >= 4 {
		return "4+"
	}
	return strconv.Itoa(max(n, 1))
}

// maxModels bounds the models that have their own time series. Models beyond the bound are counted together.
const maxModels = 100

// usage counts what an input adds to the tokens and the cost of its run. The usage of an agent is counted where the
// agent's run is.
func (m *Metrics) usage(u *machine.Settled) {
	if u.Agent {
		return
	}
	model := u.Model
	if !m.models.admit(model, maxModels) {
		model = otherLabel
	}
	if u.InputTokens > 0 {
		m.tokens.WithLabelValues("input", model).Add(float64(u.InputTokens))
	}
	if u.OutputTokens > 0 {
		m.tokens.WithLabelValues("output", model).Add(float64(u.OutputTokens))
	}
	if u.CostMicro > 0 {
		m.cost.WithLabelValues(model).Add(float64(u.CostMicro) / 1e6)
	}
}

// Spans counts spans by result. A nil Metrics does not count.
func (m *Metrics) Spans(n int, exported bool) {
	if m == nil {
		return
	}
	outcome := "lost"
	if exported {
		outcome = "exported"
	}
	m.exported.WithLabelValues(outcome).Add(float64(n))
}
