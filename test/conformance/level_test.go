package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/test/conformance/godriver"
)

// TestDriverOf reads the flag -driver.
func TestDriverOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]language{
		"java=java -jar driver.jar":  {name: "java", command: []string{"java", "-jar", "driver.jar"}},
		"java=tcp:127.0.0.1:7000":    {name: "java", network: "tcp", address: "127.0.0.1:7000"},
		"java=unix:/tmp/driver.sock": {name: "java", network: "unix", address: "/tmp/driver.sock"},
	} {
		got, err := driverOf(text, stepsLevel)
		if err != nil || got.name != want.name || strings.Join(got.command, " ") != strings.Join(want.command, " ") ||
			got.network != want.network || got.address != want.address || got.level != stepsLevel || len(got.modes) != 1 {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "java", "=java", "java= ", "go=./driver"} {
		if got, err := driverOf(text, coreLevel); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if _, err := levelOf("all"); err == nil || !strings.Contains(err.Error(), "core, steps, worker, models") {
		t.Error(err)
	}
}

// TestLevels finds scenarios in every level, and each by its verbs.
func TestLevels(t *testing.T) {
	t.Parallel()
	all, err := loadScenarios("../..", "")
	if err != nil {
		t.Fatal(err)
	}
	count := map[level]int{}
	of := map[string]level{}
	for _, s := range all {
		count[s.level()]++
		of[s.Name] = s.level()
	}
	for l := range levels {
		if count[level(l)] < 10 {
			t.Errorf("level %s has %d scenarios", level(l), count[level(l)])
		}
	}
	for name, want := range map[string]level{"lifecycle": coreLevel, "approvals-deny": stepsLevel, "worker-suspends": workerLevel, "model-fork": modelsLevel} {
		if got, found := of[name]; !found || got != want {
			t.Errorf("%s is of level %s, want %s", name, got, want)
		}
	}
	for verb := range verbLevels {
		if runnerVerbs[verb] == nil && !strings.Contains(" "+strings.Join(driverVerbs, " ")+" ", " "+verb+" ") {
			t.Errorf("%s is no verb", verb)
		}
	}
}

// TestDriverOverASocket speaks to a driver that listens.
func TestDriverOverASocket(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "driver"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			godriver.Serve(conn, conn)
		}
	}()
	lang, err := driverOf("other=unix:"+listener.Addr().String(), coreLevel)
	if err != nil {
		t.Fatal(err)
	}
	d, err := startDriver(lang, newProcesses())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := d.call("ping", nil); err != nil || r.Error != nil {
		t.Fatal(r, err)
	}
	if err := d.kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.call("ping", nil); err == nil {
		t.Error("a driver whose connection is closed answers")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := startDriver(lang, newProcesses()); err == nil {
		t.Error("a driver that does not listen starts")
	}
}

// TestPrintLevels counts the scenarios of each level of another driver.
func TestPrintLevels(t *testing.T) {
	t.Parallel()
	core, steps := &scenario{Name: "a"}, &scenario{Name: "b", steps: []step{{verb: "resolve"}}}
	columns := []*column{
		{lang: language{name: "go", level: modelsLevel}},
		{lang: language{name: "java", level: stepsLevel}, results: map[string]result{"a": {passed: true}, "b": {}}},
	}
	var out bytes.Buffer
	printLevels(&out, &settings{scenarios: []*scenario{core, steps}}, columns)
	if got, want := out.String(), "java: level core passed (1 scenarios)\njava: level steps failed (1 of 1 scenarios)\n"; got != want {
		t.Errorf("%s", got)
	}
}
