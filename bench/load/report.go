package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"encoding/json"
	"math"
	"time"

	"github.com/pawl-dev/pawl/bench/load/host"
)

// Figure is one measured line with its verdict.
type Figure struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	// Unit is "us", "ms", "/s", "MB", "x" or "" for a count.
	Unit string `json:"unit"`
	stat.Stat
	Bar     *stat.Bar    `json:"bar,omitempty"`
	Verdict stat.Verdict `json:"verdict,omitempty"`

	derived bool
}

// Report is everything that one bench found.
type Report struct {
	Quick   bool
	Machine host.Machine
	Sizes   Sizes
	Sync    string
	Elapsed time.Duration
	Figures []Figure
	// Faults name the parts that could not be measured; empty = all were.
	Faults []string
	// Missing says which workers are not installed here; that is no fault.
	Missing []string
}

// newReport judges samples; more are the figures of a database.
func newReport(samples Samples, more ...figure) *Report {
	r := &Report{}
	for _, f := range append(figures(), more...) {
		out := Figure{
			Key: f.key, Title: f.title, Unit: f.unit,
			Stat: stat.Of(f.from(samples)), Bar: f.bar, derived: f.derived,
		}
		if f.bar != nil {
			out.Verdict = f.bar.Judge(out.Stat)
		} else if math.IsNaN(out.Median) {
			out.Verdict = stat.NotMeasured
		}
		r.Figures = append(r.Figures, out)
	}
	return r
}

// MarshalJSON writes the flat keys that scripts read, each the median of its
// rounds (null where it could not be measured), and beside them every figure
// with its rounds, spread, bar and verdict.
func (r *Report) MarshalJSON() ([]byte, error) {
	doc := map[string]any{
		"quick":     r.Quick,
		"machine":   r.Machine,
		"sizes":     r.Sizes,
		"sync":      r.Sync,
		"elapsed_s": math.Round(r.Elapsed.Seconds()*10) / 10,
		"figures":   r.Figures,
		"faults":    append([]string{}, r.Faults...),
		"missing":   append([]string{}, r.Missing...),
	}
	for _, f := range r.Figures {
		if !f.derived {
			doc[f.Key] = stat.Number(f.Median)
		}
	}
	return json.Marshal(doc)
}

// MarshalJSON adds the figure's own fields to those of its Stat.
func (f Figure) MarshalJSON() ([]byte, error) {
	doc := f.Fields()
	doc["key"], doc["title"], doc["unit"] = f.Key, f.Title, f.Unit
	if f.Bar != nil {
		doc["bar"] = f.Bar
	}
	if f.Verdict != "" {
		doc["verdict"] = f.Verdict
	}
	return json.Marshal(doc)
}
