package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"os"
	"slices"
	"strings"
	"testing"
)

// TestSuiteMeasuresEverything runs the whole bench on next to nothing: every key
// has a number, nothing stays behind.
func TestSuiteMeasuresEverything(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts some dozens of processes")
	}
	dir := t.TempDir()
	report, err := Run(t.Context(), Options{Sizes: tinySizes(), Quick: true, Self: self(t), Product: self(t)[0], Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range report.Faults {
		t.Error(fault)
	}
	doc := document(t, report)
	for _, key := range flatKeys {
		if value, ok := doc[key].(float64); !ok || value <= 0 {
			t.Errorf("%s is %v", key, doc[key])
		}
	}
	for _, key := range growthKeys {
		if _, ok := doc[key].(float64); !ok {
			t.Errorf("%s is %v", key, doc[key])
		}
	}
	for _, f := range report.Figures {
		if f.Verdict == stat.NotMeasured && !slices.Contains(slices.Concat(foreignKeys, ratioKeys), f.Key) {
			t.Errorf("%s was not measured", f.Key)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPartsAreChosenByName(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), Options{Sizes: tinySizes(), Self: self(t), Product: self(t)[0], Dir: t.TempDir(), Parts: []string{"binary"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Figures {
		if measured := f.Verdict != stat.NotMeasured; measured != (f.Key == "binary_mb") {
			t.Errorf("%s: %s", f.Key, f.Verdict)
		}
	}
	if _, err := Run(t.Context(), Options{Self: self(t), Dir: t.TempDir(), Parts: []string{"nonsense"}}); err == nil || !strings.Contains(err.Error(), "inprocess, wire") {
		t.Errorf("an unknown part: %v", err)
	}
	if _, err := Run(t.Context(), Options{Dir: t.TempDir()}); err == nil {
		t.Error("a bench without a command for its children was run")
	}
}
