package pack

import (
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack/feature"
)

// TestFeatureTableInDocs: the table of docs/reference/semantics.md is the one that the
// code has; -rewrite renews it.
func TestFeatureTableInDocs(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/reference/semantics.md", "<!-- features:begin", "<!-- features:end -->"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	marker, rest, closed := strings.Cut(rest, "-->\n")
	got, tail, ended := strings.Cut(rest, end)
	if !ok || !closed || !ended {
		t.Fatalf("%s has no %q and %q", path, begin, end)
	}
	if got == feature.Table() {
		return
	}
	if !*rewrite {
		t.Fatalf("the feature table of %s is not that of the code: go test ./internal/pack -run FeatureTableInDocs -rewrite", path)
	}
	if err := os.WriteFile(path, []byte(head+begin+marker+"-->\n"+feature.Table()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
