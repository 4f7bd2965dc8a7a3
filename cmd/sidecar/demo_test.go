package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestDemo runs the demo with this test binary as sidecar and app.
func TestDemo(t *testing.T) {
	t.Parallel()
	code, out, errs := typed(t, "demo", "--keep", "-o", "json")
	var got struct {
		OK    bool
		Dir   string
		Facts struct {
			Approved int
			LookedUp int `json:"looked_up"`
			Crashes  int
		}
		Ledger []struct{ Key, Order string }
		Run    struct {
			Status, State string
			CostMicroUSD  json.Number `json:"cost_micro_usd"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(got.Dir); err != nil {
			t.Error(err)
		}
	})
	if !got.OK || got.Run.Status != "COMPLETED" || got.Run.State != "closed" || got.Run.CostMicroUSD != "1000000" {
		t.Errorf("%+v", got)
	}
	if got.Facts.Approved != 1 || got.Facts.LookedUp != 1 || got.Facts.Crashes != 1 {
		t.Errorf("facts %+v", got.Facts)
	}
	orders := ""
	for _, p := range got.Ledger {
		orders += p.Order + " "
	}
	if orders != "17 18 19 20 " {
		t.Errorf("the ledger has the orders %s", orders)
	}
	for _, name := range []string{"data/MANIFEST", "ledger.jsonl", "refunds.pack.yaml", "sidecar.log"} {
		if _, err := os.Stat(filepath.Join(got.Dir, name)); err != nil {
			t.Errorf("kept: %v", err)
		}
	}
}

// TestDemoCodegen runs the codegen demo with this test binary as the sidecar.
func TestDemoCodegen(t *testing.T) {
	t.Parallel()
	code, out, errs := typed(t, "demo", "codegen", "--keep", "-o", "json")
	var got struct {
		OK            bool
		Dir           string
		ToolsExecuted int `json:"tools_executed"`
		StepsReplayed int `json:"steps_replayed"`
		Crash         struct {
			PID    int
			NewPID int `json:"new_pid"`
			Seq    uint64
		}
		Run struct {
			Status    string
			Artifacts struct {
				CommitSHA  string                      `json:"commit_sha"`
				TestReport struct{ Passed, Total int } `json:"test_report"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(got.Dir); err != nil {
			t.Error(err)
		}
	})
	if !got.OK || got.Run.Status != "COMPLETED" || got.ToolsExecuted != 4 || got.StepsReplayed != 1 {
		t.Errorf("%+v", got)
	}
	if got.Crash.PID == got.Crash.NewPID || got.Crash.PID == 0 || got.Crash.Seq == 0 {
		t.Errorf("crash %+v", got.Crash)
	}
	if r := got.Run.Artifacts; len(r.CommitSHA) != 40 || r.TestReport.Passed != 5 || r.TestReport.Total != 5 {
		t.Errorf("artifacts %+v", r)
	}
	for _, name := range []string{"data/MANIFEST", "workspace/roman.go", "codegen-agent.yaml", "sidecar.log"} {
		if _, err := os.Stat(filepath.Join(got.Dir, name)); err != nil {
			t.Errorf("kept: %v", err)
		}
	}
}
