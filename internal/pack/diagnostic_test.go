package pack

import "testing"

// TestFullListKeepsWarnings: in a full list, an error that is already listed replaces no warning and is not counted as
// dropped. A new error replaces a warning, also one that the reader found.
func TestFullListKeepsWarnings(t *testing.T) {
	t.Parallel()
	f := newFindings()
	f.err("E", "/a", "", "first")
	for i := range maxDiagnostics - 1 {
		f.warn("W", "/w", "", "warning %d", i)
	}
	f.err("E", "/a", "", "first")
	if len(f.list) != maxDiagnostics || f.dropped != 0 {
		t.Errorf("%d findings, %d dropped", len(f.list), f.dropped)
	}
	f.addAt("R", "/b", 3, 4, "", "of the reader")
	if last := f.list[len(f.list)-1]; len(f.list) != maxDiagnostics || f.dropped != 1 || last.Code != "R" || last.Line != 3 {
		t.Errorf("%d findings, %d dropped, the last is %v", len(f.list), f.dropped, last)
	}
}
