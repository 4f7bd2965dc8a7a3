package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const page = `# Guarantees

| other | table |
|---|---|
| not | a promise |

## Durability

| promise | proof |
|---|---|
| It stays | ` + "`make kill KILLS=50`, `e2e: TestKill`, `internal/store: TestKill`" + ` |
| Any order | ` + "`make sim`, `make sim-mutants`, `test/simulation/disk: TestCrash`" + ` |

Not promised: more.

## Money

| promise | proof |
|---|---|
| No cent | ` + "`e2e: TestKill`, `PAWL_DAMAGE=9 go test ./x`" + ` |
`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parse(page)
	want := []promise{
		{area: "Durability", text: "It stays", tests: []test{{"e2e", "TestKill"}, {"internal/store", "TestKill"}}, rest: []string{"make kill KILLS=50"}},
		{area: "Durability", text: "Any order", tests: []test{{"test/simulation/disk", "TestCrash"}}, sim: true, rest: []string{"make sim-mutants"}},
		{area: "Money", text: "No cent", tests: []test{{"e2e", "TestKill"}}, rest: []string{"PAWL_DAMAGE=9 go test ./x"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	wanted, order, sim := byPackage(got)
	if !sim || len(order) != 3 || len(wanted["e2e"]) != 1 {
		t.Errorf("%v %v %v", wanted, order, sim)
	}
}

// TestEveryRowIsRead: the page has no table but those of promises, and no row of it is passed over, as
// one behind an empty line would be.
func TestEveryRowIsRead(t *testing.T) {
	t.Parallel()
	rows := 0
	for line := range strings.Lines(promises) {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|--") && !strings.HasPrefix(line, "| promise |") {
			rows++
		}
	}
	if all, err := parse(promises); err != nil || len(all) != rows {
		t.Errorf("%d of %d rows are read, %v", len(all), rows, err)
	}
}

func TestPagesThatProveNothing(t *testing.T) {
	t.Parallel()
	head := "| promise | proof |\n|---|---|\n"
	for name, text := range map[string]string{
		"no table":                 "# Guarantees\n",
		"a row without a test":     head + "| It stays | trust us |\n",
		"a row with a cell more":   head + "| It stays | kills | `e2e: TestKill` |\n",
		"only what takes too long": head + "| It stays | `make kill` |\n",
	} {
		if got, err := parse(text); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestPageOfTheProject: each promise of the project can be tried by `make trust`.
func TestPageOfTheProject(t *testing.T) {
	t.Parallel()
	all, err := parse(promises)
	if err != nil || len(all) < 30 {
		t.Errorf("%d promises, %v", len(all), err)
	}
}

// TestProofsExist: each test that a promise names is declared in its package.
func TestProofsExist(t *testing.T) {
	t.Parallel()
	all, err := parse(promises)
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, p := range all {
		for _, test := range p.tests {
			if _, read := sources[test.dir]; !read {
				sources[test.dir] = testSources(t, test.dir)
			}
			if !strings.Contains(sources[test.dir], "func "+test.name+"(") {
				t.Errorf("%s has no %s: %s", test.dir, test.name, p.text)
			}
		}
	}
}

// testSources are the tests of one directory of the module.
func testSources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}

const stream = `{"Action":"start"}
{"Action":"run","Test":"TestKill"}
{"Action":"output","Test":"TestKill","Output":"    kill_test.go:9: tried: 20 kills\n"}
{"Action":"pass","Test":"TestKill"}
{"Action":"run","Test":"TestTable"}
{"Action":"run","Test":"TestTable/a"}
{"Action":"run","Test":"TestTable/a/deep"}
{"Action":"fail","Test":"TestTable/a/deep"}
{"Action":"fail","Test":"TestTable/a"}
{"Action":"run","Test":"TestTable/b"}
{"Action":"pass","Test":"TestTable/b"}
{"Action":"fail","Test":"TestTable"}
{"Action":"run","Test":"TestSmall"}
{"Action":"pass","Test":"TestSmall"}
{"Action":"run","Test":"TestDisk"}
{"Action":"output","Test":"TestDisk","Output":"    x.go:1: NOT RUN: no fuse\n"}
{"Action":"pass","Test":"TestDisk"}
{"Action":"run","Test":"TestSkipped"}
{"Action":"skip","Test":"TestSkipped"}
{"Action":"run","Test":"TestBroken"}
{"Action":"output","Test":"TestBroken","Output":"    x.go:1: tried: 7 cuts\n"}
{"Action":"output","Test":"TestBroken","Output":"    x.go:2: NOT RUN: the rest\n"}
{"Action":"fail","Test":"TestBroken"}
go: a line that is no event
`

func TestSum(t *testing.T) {
	t.Parallel()
	heard, said := listen(strings.NewReader(stream))
	for name, want := range map[string]trial{
		"TestKill":    {faults: 20},
		"TestTable":   {faults: 2, violations: 1},
		"TestSmall":   {faults: 1},
		"TestDisk":    {missing: "no fuse"},
		"TestSkipped": {missing: "skipped"},
		"TestBroken":  {faults: 7, violations: 1},
	} {
		if got := sum(name, heard); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if !strings.Contains(said, "no event") || !strings.Contains(said, "20 kills") {
		t.Errorf("kept %q", said)
	}
}

// TestPackageThatFails: what fails without a failing test proves nothing.
func TestPackageThatFails(t *testing.T) {
	t.Parallel()
	heard, _ := listen(strings.NewReader(stream))
	failed := errors.New("exit status 1")
	if got, err := judge("x", []string{"TestKill"}, heard, failed); !errors.Is(err, errUnnamed) || !errors.Is(err, failed) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := judge("x", []string{"TestKill", "TestTable"}, heard, failed); err != nil || got["TestTable"].violations != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := judge("x", []string{"TestNobody"}, heard, failed); !errors.Is(err, failed) {
		t.Error(err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	all, err := parse(page)
	if err != nil {
		t.Fatal(err)
	}
	found := results{sim: trial{faults: 1000, violations: 2}, tests: map[test]trial{
		{"e2e", "TestKill"}:                   {missing: "no fuse"},
		{"internal/store", "TestKill"}:        {faults: 3},
		{"test/simulation/disk", "TestCrash"}: {faults: 5},
	}}
	var out strings.Builder
	if broken := report(&out, all, found, 90*time.Second); broken != 1 {
		t.Errorf("%d broken", broken)
	}
	for _, line := range []string{
		"\nDurability\n",
		"  It stays … 3 faults … 0 violations\n      not run here: TestKill: no fuse\n      more of it: make kill KILLS=50\n",
		"  Any order … 1005 faults … 2 violations\n",
		"  No cent … 0 faults … 0 violations\n",
		"\n3 promises … 1008 faults … 2 violations, 1 kept, 1 broken, 1 not tried, 90 s\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}

// TestRealRun: the go command's own stream is understood, and what does not exist is an error.
func TestRealRun(t *testing.T) {
	t.Chdir("../..")
	got, err := tests("test/trust", []string{"TestPagesThatProveNothing"}, nil, io.Discard)
	if err != nil || got["TestPagesThatProveNothing"] != (trial{faults: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := tests("test/trust", []string{"TestThatNobodyWrote"}, nil, io.Discard); err == nil {
		t.Errorf("a test that does not exist was believed: %+v", got)
	}
}
