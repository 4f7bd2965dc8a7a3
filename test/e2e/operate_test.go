package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// incidentsPage is the page with a row for each incident of the day.
const incidentsPage = "../../docs/operations/incidents.md"

// incident is a fault that an operator meets, and a row of docs/operations/incidents.md. The test brings the fault
// about on real processes, waits for each place where it shows, runs the command, repairs the fault and waits until the
// alert resolves.
type incident struct {
	symptom string
	// alert is the name of a rule of deploy/alerts.yaml, metric an expression that is then greater than 0, and log
	// the message of a line. shows is another place, in words. Each of them may be "".
	alert, metric, log, shows string
	// command explains the fault. says matches its output, and fails means that it ends with another code than 0.
	command, says string
	fails         bool
	fix           string
	// lasts means that the alert does not resolve at once after the fix.
	lasts bool
	// bring causes the fault, and repair is the fix. Each may set words of the command in fill.
	bring, repair func(d *day)
}

// place returns where the incident shows, as the page has it.
func (i *incident) place() string {
	var all []string
	for _, one := range []struct{ kind, name string }{{"alert", i.alert}, {"metric", i.metric}, {"log", i.log}} {
		if one.name != "" {
			all = append(all, one.kind+" `"+one.name+"`")
		}
	}
	if i.shows != "" {
		all = append(all, i.shows)
	}
	return strings.Join(all, "; ")
}

func (i *incident) row() string {
	return fmt.Sprintf("| %s | %s | `%s` | %s |", i.symptom, i.place(), i.command, i.fix)
}

// TestIncidentsPage: the rows of the page are the incidents that TestOperate brings about, in the same order.
func TestIncidentsPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(incidentsPage)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, i := range slices.Concat(incidentsOfADirectory, incidentsOfACluster) {
		want = append(want, i.row())
		if i.place() == "" || i.command == "" || i.says == "" || i.fix == "" {
			t.Errorf("%s: an incident needs a place where it shows, a command, its output and a fix", i.symptom)
		}
	}
	_, table, _ := strings.Cut(string(raw), "|---|---|---|---|\n")
	var got []string
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for n := range max(len(got), len(want)) {
		has, wants := "", ""
		if n < len(got) {
			has = got[n]
		}
		if n < len(want) {
			wants = want[n]
		}
		if has != wants {
			t.Errorf("%s, row %d is\n%s\nwant\n%s", incidentsPage, n+1, has, wants)
		}
	}
}

// day is a day of an operator: sidecars, and a Prometheus that scrapes them and evaluates the shipped alerts.
type day struct {
	t    *testing.T
	ctx  context.Context
	name string
	// s is the sidecar that commands ask, and at the address of its metrics.
	s  *sidecar
	at string
	p  *prometheus
	// fill replaces words of commands, for example RUN.
	fill map[string]string
	// environment has variables of commands.
	environment []string

	directory directoryDay
	cluster   clusterDay
}

// say prints a line of the day.
func (d *day) say(format string, args ...any) {
	fmt.Printf("%s  %-9s  %s\n", time.Now().UTC().Format("15:04:05"), d.name, fmt.Sprintf(format, args...))
}

// meet brings an incident about and repairs it.
func (d *day) meet(i *incident) {
	d.t.Helper()
	d.say("%s", i.symptom)
	began, s, logged := time.Now(), d.s, len(d.s.stderr.String())
	i.bring(d)
	if d.s != s {
		logged = 0
	}
	alert := i.alert
	if alert != "" && alert != "PawlWithoutOwner" {
		alert += " " + d.at
	}
	if alert != "" {
		d.p.fires(alert)
		d.say("    alert    %s, after %.1f s", i.alert, time.Since(began).Seconds())
	}
	if i.metric != "" {
		d.p.await("metric "+i.metric, func() bool { return d.p.query("max("+i.metric+")") > 0 })
		d.say("    metric   %s", i.metric)
	}
	if i.log != "" {
		var line string
		d.p.await("the log has "+i.log, func() bool { line = lineWith(since(d.s.stderr.String(), logged), `msg="`+i.log+`"`); return line != "" })
		d.say("    log      %s", cut(line))
	}
	said := d.explain(i)
	d.say("    command  %s", i.command)
	d.say("    says     %s", cut(regexp.MustCompile(i.says).FindString(said)))
	i.repair(d)
	d.say("    fix      %s", i.fix)
	if alert != "" && !i.lasts {
		d.p.resolves(alert)
	}
	d.say("    over after %.1f s", time.Since(began).Seconds())
}

// explain runs the command of an incident until its output says what it must.
func (d *day) explain(i *incident) (said string) {
	d.t.Helper()
	says := regexp.MustCompile(i.says)
	var err error
	d.p.await(i.command+" says "+i.says, func() bool {
		said, err = d.try(i.command)
		return says.MatchString(said) && (err != nil) == i.fails
	})
	return said
}

// try runs a command with its words filled in.
func (d *day) try(command string) (string, error) {
	words := strings.Fields(command)
	for n, word := range words {
		if filled := d.fill[word]; filled != "" {
			words[n] = filled
		}
	}
	cmd := exec.CommandContext(d.ctx, binary(d.t), words[1:]...)
	cmd.Env = append(os.Environ(), append([]string{"PAWL_ADDR=unix:" + d.s.socket}, d.environment...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run runs a command that must succeed.
func (d *day) run(command string) string {
	d.t.Helper()
	out, err := d.try(command)
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// since returns what a log has after its first bytes, or all of it if the process was started again.
func since(log string, logged int) string {
	if len(log) < logged {
		return log
	}
	return log[logged:]
}

// lineWith returns the first line of a text that contains a word, or "".
func lineWith(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// cut shortens a line for the printed day.
func cut(line string) string {
	if len(line) > 220 {
		return line[:220] + " ..."
	}
	return line
}

// quiet waits until Prometheus has evaluated the rules over several scrapes of each target. No alert may fire then.
func (d *day) quiet() {
	d.t.Helper()
	d.p.await("Prometheus has evaluated the rules over several scrapes", func() bool { return d.p.query("min(count_over_time(up[1m]))") >= 6 })
	if firing := d.p.firing(); len(firing) > 0 {
		d.t.Fatalf("without a fault these alerts fire: %v", firing)
	}
	d.say("no alert fires")
}

// TestOperate is a day of an operator on real processes, under a real Prometheus with deploy/alerts.yaml: each incident
// of docs/operations/incidents.md happens, shows, is explained by a command and repaired. Without a fault no alert fires.
// In the evening each panel of the dashboards has data. `make operate` prints the day. All rules are also tested by
// deploy/alerts_test.yaml.
func TestOperate(t *testing.T) {
	t.Parallel()
	if os.Getenv("PAWL_PROMETHEUS") == "" {
		t.Skip("make operate runs it")
	}
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		d := &day{t: t, ctx: deadline(t, 8*time.Minute), name: "directory", fill: map[string]string{}}
		d.beginDirectory()
		for n := range incidentsOfADirectory {
			d.meet(&incidentsOfADirectory[n])
		}
		d.p.checkDashboard(t, "../../deploy/grafana/pawl.json")
		d.say("each panel of deploy/grafana/pawl.json has data")
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		d := &day{t: t, ctx: deadline(t, 8*time.Minute), name: "cluster", fill: map[string]string{}}
		d.beginCluster()
		for n := range incidentsOfACluster {
			d.meet(&incidentsOfACluster[n])
		}
		d.p.checkDashboard(t, "../../deploy/grafana/cluster.json")
		d.say("each panel of deploy/grafana/cluster.json has data")
	})
}

// receiver is a webhook receiver that can be down.
type receiver struct {
	*httptest.Server
	down atomic.Bool
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if r.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// replaceFile puts a file in the place of one that is there.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// tables returns the table files of a data directory.
func tables(dir string) []string {
	all, _ := filepath.Glob(filepath.Join(dir, "*.sst")) // the pattern is well formed
	return all
}
