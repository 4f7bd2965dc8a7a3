package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/child"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// prometheus is a real Prometheus that scrapes sidecars and evaluates deploy/alerts.yaml. Its rules wait one
// second where those of the file wait minutes.
type prometheus struct {
	t   *testing.T
	url string
	dir string
}

// newPrometheus starts one that scrapes each of the given addresses.
func newPrometheus(t *testing.T, targets ...string) *prometheus {
	t.Helper()
	p := &prometheus{t: t, dir: t.TempDir()}
	rules, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules = regexp.MustCompile(`for: \d+m`).ReplaceAll(rules, []byte("for: 1s"))
	quoted := make([]string, len(targets))
	for i, target := range targets {
		quoted[i] = fmt.Sprintf("%q", target)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: pawl
    static_configs: [{targets: [%s]}]
`, strings.Join(quoted, ", "))
	for name, text := range map[string]string{"alerts.yaml": string(rules), "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.url = "http://" + freeAddress(t)
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(p.dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(p.dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(p.url, "http://"), "--log.level=error")
	cmd.Stderr = os.Stderr
	if err := child.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p.await("Prometheus answers", func() bool { return p.firing() != nil })
	return p
}

// freeAddress returns an address of this machine that no program listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// firing returns the names of the alerts that fire, with the instance. It returns nil if Prometheus does not answer.
func (p *prometheus) firing() map[string]bool {
	resp, err := http.Get(p.url + "/api/v1/alerts")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var out struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil
	}
	firing := map[string]bool{}
	for _, alert := range out.Data.Alerts {
		if alert.State == "firing" {
			firing[strings.TrimSpace(alert.Labels["alertname"]+" "+alert.Labels["instance"])] = true
		}
	}
	return firing
}

// query returns the value of an expression. It returns -1 if the expression has no value.
func (p *prometheus) query(expression string) float64 {
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	var out struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || len(out.Data.Result) != 1 {
		return -1
	}
	text, _ := out.Data.Result[0].Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1
	}
	return value
}

func (p *prometheus) await(what string, holds func() bool) {
	p.t.Helper()
	for began := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > patience {
			p.t.Fatalf("not within %v: %s; these alerts fire: %v", patience, what, p.firing())
		}
	}
}

// fires waits until an alert fires.
func (p *prometheus) fires(alert string) {
	p.t.Helper()
	p.await(alert+" fires", func() bool { return p.firing()[alert] })
}

// resolves waits until an alert no longer fires.
func (p *prometheus) resolves(alert string) {
	p.t.Helper()
	p.await(alert+" resolves", func() bool { firing := p.firing(); return firing != nil && !firing[alert] })
}

// TestAlertsFire brings about the faults that alerts are for, on real sidecars that a real Prometheus
// scrapes. Without a fault no alert fires. Each of these alerts fires, and those of a state resolve when the
// fault ends. All rules are tested by deploy/alerts_test.yaml.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	if os.Getenv("PAWL_PROMETHEUS") == "" {
		t.Skip("make test-alerts runs it")
	}
	t.Run("a sidecar", func(t *testing.T) {
		t.Parallel()
		at := freeAddress(t)
		s := newSidecar(t, "--pack", "testdata/alerts.pack.yaml", "--metrics", at)
		s.start()
		p := newPrometheus(t, at)
		ctx := deadline(t, 5*time.Minute)
		p.await("Prometheus has evaluated the rules over several scrapes", func() bool { return p.query("min(count_over_time(up[1m]))") >= 6 })
		if firing := p.firing(); len(firing) > 0 {
			t.Fatalf("without a fault these alerts fire: %v", firing)
		}

		waiting, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "alerts", Execution: pawlv1.Execution_EXECUTION_WORKERS})
		if err != nil {
			t.Fatal(err)
		}
		p.fires("PawlWorkUnserved " + at)
		if _, err := s.runs().CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: waiting.GetRun().GetRunId(), RequestId: "cancel"}); err != nil {
			t.Fatal(err)
		}
		p.resolves("PawlWorkUnserved " + at)

		started, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "alerts", Execution: pawlv1.Execution_EXECUTION_CALLER})
		if err != nil {
			t.Fatal(err)
		}
		turn := started.GetTurn()
		if _, err := s.runs().FailTurn(ctx, &pawlv1.FailTurnRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Error: &pawlv1.Fault{Code: "BROKEN", Message: "a test"}, Retryable: true,
		}); err != nil {
			t.Fatal(err)
		}
		p.fires("PawlRunsEscalated " + at)

		s.kill()
		p.fires("PawlDown " + at)
		s.start()
		p.resolves("PawlDown " + at)
	})
	t.Run("a database that is away", func(t *testing.T) {
		t.Parallel()
		server := pgserver.Start(t)
		url := server.Database(t)
		var at []string
		for range 2 {
			address := freeAddress(t)
			s := newSidecar(t, "--metrics", address, "--peer-listen", "127.0.0.1:0")
			s.database = url
			s.start()
			at = append(at, address)
		}
		p := newPrometheus(t, at...)
		server.Kill(t)
		for _, one := range at {
			p.fires("PawlNotReady " + one)
		}
		p.fires("PawlWithoutOwner")
		server.Restart(t)
		for _, one := range at {
			p.resolves("PawlNotReady " + one)
		}
		p.resolves("PawlWithoutOwner")
	})
}
