package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func newWorkspace(t *testing.T) *Workspace {
	t.Helper()
	w, err := NewWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestTreeHashIsGits(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for name, content := range map[string]string{"a/b.txt": "x", "a.txt": "y", "a-b": "z", "a/deep/er": ""} {
		if err := w.WriteFile(name, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(w.Dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := w.TreeHash()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed; the hash is compared with git's own")
	}
	var out []byte
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"write-tree"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = w.Dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err = cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if want := strings.TrimSpace(string(out)); got != want {
		t.Errorf("tree hash %s, git says %s", got, want)
	}
}

func TestTreeHashFollowsContent(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	hash := func(content string) string {
		if err := w.WriteFile("f.go", content); err != nil {
			t.Fatal(err)
		}
		sum, err := w.TreeHash()
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	one, two, again := hash("1"), hash("2"), hash("1")
	if one == two || one != again {
		t.Errorf("%s %s %s", one, two, again)
	}
}

func TestWorkspaceCannotBeLeft(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for _, name := range []string{"../x", "/etc/x", "a/../../x"} {
		if err := w.WriteFile(name, "x"); err == nil {
			t.Errorf("%s was written", name)
		}
		if _, err := w.ReadFile(name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if err := w.WriteFile("big", strings.Repeat("x", maxFileBytes+1)); err == nil {
		t.Error("an oversized file was written")
	}
}

func TestLocalPackage(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]bool{
		"./...": true, "./a": true, "./a/...": true,
		"": false, "...": false, "-exec=rm": false, "./../..": false, "../x": false, "/x": false, "std": false,
	} {
		if got := localPackage(pkg) == nil; got != want {
			t.Errorf("%q taken: %v, want %v", pkg, got, want)
		}
	}
}

func TestParseReport(t *testing.T) {
	t.Parallel()
	r, err := parseReport([]byte(`{"Action":"run","Test":"TestA"}
not json
{"Action":"output","Test":"TestA","Output":"--- FAIL: TestA\n"}
{"Action":"output","Test":"TestA","Output":"    x_test.go:1: wrong\n"}
{"Action":"fail","Test":"TestA"}
{"Action":"pass","Test":"TestB"}
{"Action":"fail"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Passed != 1 || r.Total != 2 || r.OK() || len(r.Failures) != 1 || r.Failures[0].Message != "x_test.go:1: wrong" {
		t.Errorf("%+v", r)
	}
}

func TestRunTestsOnWhatDoesNotBuild(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	if err := w.WriteFile("roman.go", "package roman\nfunc"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.RunTests(t.Context(), "./..."); err == nil {
		t.Error("a module that does not build made a report")
	}
}
