package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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

	"github.com/pawl-dev/pawl/test/testkit/child"
)

// prometheus is a real Prometheus that scrapes sidecars and evaluates deploy/alerts.yaml. Its rules wait one
// second where those of the file wait minutes, and a backup is old after 15 seconds instead of two days.
type prometheus struct {
	t   *testing.T
	url string
	dir string
}

// target is the address of a sidecar's metrics. If token is the name of a file, they are served over TLS and want the token
// in it.
type target struct{ address, token string }

// scrapeConfigs returns the jobs that scrape the targets.
func scrapeConfigs(targets []target) string {
	var plain []string
	var secured strings.Builder
	for _, one := range targets {
		if one.token == "" {
			plain = append(plain, fmt.Sprintf("%q", one.address))
			continue
		}
		fmt.Fprintf(&secured, "  - {job_name: pawl-tls, scheme: https, tls_config: {insecure_skip_verify: true}, authorization: {credentials_file: %q}, static_configs: [{targets: [%q]}]}\n", one.token, one.address)
	}
	return fmt.Sprintf("scrape_configs:\n  - {job_name: pawl, static_configs: [{targets: [%s]}]}\n%s", strings.Join(plain, ", "), secured.String())
}

// newPrometheus starts one that scrapes the targets.
func newPrometheus(t *testing.T, targets ...target) *prometheus {
	t.Helper()
	p := &prometheus{t: t, dir: t.TempDir()}
	rules, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules = regexp.MustCompile(`for: \d+m`).ReplaceAll(rules, []byte("for: 1s"))
	rules = bytes.ReplaceAll(rules, []byte("> 2 * 86400"), []byte("> 15"))
	config := "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [alerts.yaml]\n" + scrapeConfigs(targets)
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

// freeAddress returns an address of this machine that no program listens on. Its port is below those that the system
// gives to connections, so that none of these takes it before the program listens, or between two starts.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err == nil {
			_ = ln.Close()
			return address
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
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

// query returns the value of an expression. It returns -1 if the expression does not have exactly one.
func (p *prometheus) query(expression string) float64 {
	if values := p.values(expression); len(values) == 1 {
		return values[0]
	}
	return -1
}

// values returns the values of all series of an expression now.
func (p *prometheus) values(expression string) (values []float64) {
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var out struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil
	}
	for _, one := range out.Data.Result {
		text, _ := one.Value[1].(string)
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values = append(values, value)
		}
	}
	return values
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

// checkDashboard waits until each expression of each panel of a dashboard has a value. A panel without data is named.
// Grafana itself does not run here: nothing is drawn.
func (p *prometheus) checkDashboard(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil || len(board.Panels) == 0 {
		t.Fatalf("%s: %d panels, %v", path, len(board.Panels), err)
	}
	variables := strings.NewReplacer("$instance", ".*", "$__rate_interval", "10m")
	var missing []string
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		missing = nil
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				if math.IsNaN(p.largest(variables.Replace(target.Expr))) {
					missing = append(missing, fmt.Sprintf("%s: panel %q has no data: %s", path, panel.Title, target.Expr))
				}
			}
		}
		if len(missing) == 0 {
			return
		}
		if time.Since(began) > patience {
			t.Errorf("after %v\n%s", patience, strings.Join(missing, "\n"))
			return
		}
	}
}

// largest returns the largest value of an expression. It returns NaN if the expression has none.
func (p *prometheus) largest(expression string) float64 {
	largest := math.NaN()
	for _, value := range p.values(expression) {
		if math.IsNaN(largest) || value > largest {
			largest = value
		}
	}
	return largest
}
