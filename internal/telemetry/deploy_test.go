package telemetry_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// idle is an engine with one run of nothing.
type idle struct{}

func (idle) Namespaces() []string { return []string{"default"} }

func (idle) CountRuns(context.Context, runtime.Call) ([]query.StatusCount, error) {
	return []query.StatusCount{{Status: machine.Running, Runs: 1}}, nil
}
func (idle) Work(context.Context) dispatch.Stats { return dispatch.Stats{Unserved: 2} }
func (idle) Outbox(context.Context, machine.OutboxKind, int) ([]machine.OutboxRow, error) {
	return []machine.OutboxRow{{Due: 1}}, nil
}

func (idle) Followers(context.Context) (streams.Followers, error) {
	return streams.Followers{Streams: 1, Lag: 3}, nil
}

func (idle) SubscriptionLags(context.Context) (map[machine.SubscriptionKind]uint64, error) {
	return map[machine.SubscriptionKind]uint64{machine.SubscriptionWebhook: 2}, nil
}

// Sizes and LastBackup are those of a store with one backup.
func (idle) Sizes() (lsm, log int64)                 { return 1, 2 }
func (idle) LastBackup(time.Time) (time.Time, error) { return time.Unix(8, 0), nil }

func (idle) AccountFigures() []budget.Figure {
	return []budget.Figure{{Name: "tenant=*/day", Refused: 1}}
}

func (idle) Limits() []ratelimit.Total {
	return []ratelimit.Total{{Limit: "gpt", Admitted: 3, Waited: 1, WaitedFor: time.Second, Open: 1, Queued: 1}}
}
func (idle) Quotas() []quota.Figure {
	return []quota.Figure{{Namespace: "default", Resource: quota.OpenRuns, Most: 5, Open: 1, Refused: 2}}
}

// newFilledMetrics makes each metric have a value.
func newFilledMetrics(t *testing.T) *telemetry.Metrics {
	t.Helper()
	m := telemetry.NewMetrics()
	m.Watch(idle{}, idle{})
	state := &machine.State{RunID: "R", TotalVisits: 1, Transitions: 1, Limits: machine.Limits{MaxTransitions: 10}}
	ctx, cancel := context.WithCancel(t.Context())
	m.Observe(&machine.Batch{Input: machine.Input{Command: machine.LoseTurn{LeaseExpired: true}}, State: state, Records: []machine.Record{
		{Body: &machine.Transition{Cause: machine.CauseEntry}}, {Body: &machine.TurnCompleted{Attempt: 1}},
		{Body: &machine.TurnFailed{Attempt: 9, Violation: &machine.Violation{Type: "banned_words"}}}, {Body: &machine.TurnAbandoned{}},
		{Body: &machine.StepResolved{Attempt: 1, OK: true}}, {Body: &machine.StepResolved{Attempt: 2}}, {Body: &machine.StepResolved{Unknown: true}},
		{Body: &machine.StepRejected{}}, {Body: &machine.StepCancelled{}},
		{Body: &machine.Evaluated{Results: []machine.EvalResult{{Trigger: "every_turn", Passed: true}}}},
		{Body: &machine.Ended{Status: machine.Escalated, Reason: "tool_error:secret-tool"}},
	}, Settled: []machine.Settled{{UsageSum: machine.UsageSum{InputTokens: 1, OutputTokens: 1, CostMicro: 1}}}}, func(context.Context, *machine.State) (*machine.Graph, error) {
		cancel()
		return &machine.Graph{Budget: machine.Budget{MaxTotalVisits: 2}}, nil
	})
	m.Run(ctx)
	m.Synced(1, 2)
	m.Spans(1, true)
	m.Refused("pawl.v1.RunService/GetRun", "RUN_NOT_FOUND")
	m.Ignored("stale")
	m.Instants("nightly", "fired", 1)
	m.Readiness(func() (bool, time.Time) { return true, time.Unix(5, 0) })
	m.Certificate(func() time.Time { return time.Unix(6, 0) })
	m.Disk(func() (free, least int64, err error) { return 7, 3, nil })
	nodes := m.Nodes()
	nodes.Watch(func() telemetry.ClusterState { return telemetry.ClusterState{Owned: 1, Living: 3, Unowned: 1} })
	nodes.CountAcquired()
	nodes.CountReleased(telemetry.OutcomeHandover)
	nodes.Forwarded("pawl.v1.RunService/GetRun", "OK")
	nodes.Retried("pawl.v1.RunService/GetRun")
	nodes.NoOwner("pawl.v1.RunService/GetRun")
	return m
}

func page(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v: %s", w.Code, err, body)
	}
	return string(body)
}

// exposed are the names that a query may use, and the metrics that they are of.
func exposed(t *testing.T) (series, metrics map[string]bool) {
	t.Helper()
	series, metrics = map[string]bool{"up": true}, map[string]bool{} // Prometheus itself makes the series up.
	for line := range strings.Lines(page(t, newFilledMetrics(t))) {
		words := strings.Fields(line)
		if len(words) != 4 || words[1] != "TYPE" {
			continue
		}
		name, kind := words[2], words[3]
		metrics[name] = true
		if (kind == "counter") != strings.HasSuffix(name, "_total") && strings.HasPrefix(name, "pawl_") {
			t.Errorf("%s is a %s", name, kind)
		}
		if kind != "histogram" {
			series[name] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			series[name+suffix] = true
		}
	}
	return series, metrics
}

var metricName = regexp.MustCompile(`\b(?:pawl|process|go)_[a-z_]+|\bup\b`)

// checkQuery: every name in a query exists and its brackets are paired.
func checkQuery(t *testing.T, place, query string, series map[string]bool) {
	t.Helper()
	names := metricName.FindAllString(query, -1)
	if len(names) == 0 {
		t.Errorf("%s: %q asks for nothing", place, query)
	}
	for _, name := range names {
		if !series[name] {
			t.Errorf("%s: there is no %s", place, name)
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			t.Errorf("%s: %q has unpaired %s", place, query, pair)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	series, _ := exposed(t)
	paths, _ := filepath.Glob("../../deploy/grafana/*.json")
	if len(paths) == 0 {
		t.Fatal("no dashboards")
	}
	for _, path := range paths {
		var board struct {
			Title, UID    string
			SchemaVersion int
			Panels        []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(read(t, path), &board); err != nil || board.Title == "" || board.UID == "" || board.SchemaVersion == 0 || len(board.Panels) == 0 {
			t.Fatalf("%s: %v, %+v", path, err, board)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				checkQuery(t, panel.Title, target.Expr, series)
			}
			if panel.Title == "" || len(panel.Targets) == 0 {
				t.Errorf("panel %q asks for nothing", panel.Title)
			}
		}
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	series, _ := exposed(t)
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(read(t, "../../deploy/alerts.yaml"), &file, yaml.DisallowUnknownField()); err != nil || len(file.Groups) == 0 {
		t.Fatal(err, file)
	}
	page := string(read(t, "../../docs/reference/metrics.md"))
	var names []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			checkQuery(t, rule.Alert, rule.Expr, series)
			if rule.Alert == "" || slices.Contains(names, rule.Alert) || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
				t.Errorf("rule %+v", rule)
			}
			if !strings.Contains(page, "\n| `"+rule.Alert+"` |") || !strings.HasSuffix(rule.Annotations["runbook_url"], "/docs/reference/metrics.md#alerts") {
				t.Errorf("rule %s: docs/reference/metrics.md does not list it, or runbook_url does not name that page", rule.Alert)
			}
			names = append(names, rule.Alert)
		}
	}
}

// TestMetricsAreDocumented: the page lists each metric, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	_, metrics := exposed(t)
	listed := map[string]bool{}
	for _, name := range regexp.MustCompile("(?m)^\\| `(pawl_[a-z_]+)").FindAllStringSubmatch(string(read(t, "../../docs/reference/metrics.md")), -1) {
		listed[name[1]] = true
	}
	for name := range metrics {
		if strings.HasPrefix(name, "pawl_") && !listed[name] {
			t.Errorf("docs/reference/metrics.md does not list %s", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("docs/reference/metrics.md lists %s, which there is not", name)
	}
}

// TestLabelsAreBounded: what pack authors name is no value of a label.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	text := page(t, newFilledMetrics(t))
	for _, line := range []string{
		`pawl_runs_ended_total{reason="tool_error",status="ESCALATED"} 1`, `pawl_turns_total{attempt="4+",outcome="failed"} 1`,
		`pawl_run_budget_used_ratio_bucket{budget="max_total_visits",le="0.5"} 1`, `pawl_lease_expiries_total 1`, `pawl_validator_hits_total{type="banned_words"} 1`, `pawl_watcher_lag 3`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, "secret-tool") {
		t.Error("a tool's name is a label")
	}
}
