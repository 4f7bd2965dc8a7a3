package output

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// cellWidth bounds an artifact's cell in a trace.
const cellWidth = 28

// none represents an artifact without a value.
const none = "—"

// Trace prints a run in the form of PromptPack RFC 0009: one row per transition, with the artifacts as they were then, one for the origin
// of a fork, and one for the end. Add must get all records of the run in order.
type Trace struct {
	// Columns are the artifacts to show, in order; nil = all artifacts, in the order in which they were first
	// written.
	Columns []string
	// Diff shows in each row only the differences from the row before.
	Diff bool

	artifacts map[string]*pawlv1.ArtifactHead
	values    map[string]any
	lines     []string
	visits    map[string]int
	rows      []traceRow
	// printedRows is how many rows Next has printed.
	printedRows int
}

type traceRow struct {
	to, event string
	visit     int
	// end is the text of the last row. fork marks the first row of a run that is a fork.
	end    string
	fork   bool
	values map[string]any
}

// NewTrace returns an empty trace. columns are the artifacts to show. heads say which artifacts are appended to
// instead of replaced.
func NewTrace(columns []string, heads []*pawlv1.ArtifactHead) *Trace {
	t := &Trace{Columns: columns, artifacts: map[string]*pawlv1.ArtifactHead{}, values: map[string]any{}, visits: map[string]int{}}
	t.AddArtifacts(heads)
	return t
}

// AddArtifacts adds artifacts that were created after NewTrace was called.
func (t *Trace) AddArtifacts(heads []*pawlv1.ArtifactHead) {
	for _, h := range heads {
		t.artifacts[h.GetName()] = h
	}
}

// Add adds the next record.
func (t *Trace) Add(r *pawlv1.Record) {
	switch body := r.GetBody().(type) {
	case *pawlv1.Record_Transition:
		t.write(body.Transition.GetArtifactsWritten())
		t.transition(r.GetCause(), body.Transition)
	case *pawlv1.Record_TurnCompleted:
		t.write(body.TurnCompleted.GetArtifactsWritten())
	case *pawlv1.Record_StepResolved:
		t.write(body.StepResolved.GetArtifactsWritten())
	case *pawlv1.Record_ArtifactsSet:
		t.write(body.ArtifactsSet.GetArtifactsWritten())
	case *pawlv1.Record_Origin:
		t.write(body.Origin.GetArtifactsWritten())
		t.rows = append(t.rows, traceRow{
			to: body.Origin.GetState(), event: fmt.Sprintf("(fork of %s:%d)", body.Origin.GetRunId(), body.Origin.GetSeq()),
			fork: true, values: t.snapshot(),
		})
	case *pawlv1.Record_Ended:
		t.write(body.Ended.GetArtifactsWritten())
		t.end(body.Ended)
	}
}

func (t *Trace) transition(cause pawlv1.Cause, body *pawlv1.Transition) {
	event := body.GetEvent()
	switch {
	case cause == pawlv1.Cause_CAUSE_ENTRY:
		event = "(entry)"
	case len(body.GetRedirects()) > 0:
		event += " ⤳ " + guards(body.GetRedirects())
	case cause == pawlv1.Cause_CAUSE_TIMEOUT:
		event += " (timeout)"
	}
	t.visits[body.GetToState()] = int(body.GetVisit())
	t.rows = append(t.rows, traceRow{to: body.GetToState(), event: event, visit: int(body.GetVisit()), values: t.snapshot()})
}

func (t *Trace) end(body *pawlv1.Ended) {
	t.rows = append(t.rows, traceRow{end: StatusText(body.GetStatus(), body.GetReason()), event: Lost(body), values: t.snapshot()})
}

// Lost describes the event that was not followed because the run ended, with its target and the guards that refused it: "Again → in,
// refused by max_visits:in". If no guard refused it, the reason of the end is named instead. Without a target it returns only the guards,
// "" if there are none.
func Lost(body *pawlv1.Ended) string {
	refused := guards(body.GetRedirects())
	if body.GetIntendedState() == "" {
		return refused
	}
	lost := strings.TrimSpace(body.GetEvent() + " → " + body.GetIntendedState())
	if refused == "" {
		refused = body.GetReason()
	}
	return lost + ", refused by " + refused
}

// StatusText returns a status, with its reason if that adds information.
func StatusText(status pawlv1.RunStatus, reason string) string {
	name := Bare("RunStatus", status.String())
	if reason == "" || strings.EqualFold(name, reason) {
		return name
	}
	return name + " " + reason
}

func guards(redirects []*pawlv1.Redirect) string {
	var names []string
	for _, r := range redirects {
		names = append(names, r.GetGuard())
	}
	return strings.Join(names, ", ")
}

func (t *Trace) snapshot() map[string]any {
	out := make(map[string]any, len(t.values))
	maps.Copy(out, t.values)
	return out
}

func (t *Trace) write(writes []*pawlv1.ArtifactWrite) {
	for _, w := range writes {
		value := ArtifactValue(w.GetValue())
		if t.artifacts[w.GetName()].GetMode() == pawlv1.ArtifactMode_ARTIFACT_MODE_APPEND {
			value = appended(t.values[w.GetName()], value)
		}
		if !slices.Contains(t.lines, w.GetName()) {
			t.lines = append(t.lines, w.GetName())
		}
		t.values[w.GetName()] = value
	}
}

// appended returns the value that a trace shows for an artifact with the mode append: the number of
// writes and the last written value.
func appended(before, value any) any {
	n := 1
	if b, ok := before.(accumulated); ok {
		n = b.writes + 1
	}
	return accumulated{writes: n, last: value}
}

type accumulated struct {
	writes int
	last   any
}

// Print writes the table.
func (t *Trace) Print(p *Printer) {
	columns := t.Columns
	if columns == nil {
		columns = t.lines
	}
	table := Table{Headers: append([]string{"Transition", "Event"}, columns...)}
	for i, r := range t.rows {
		row := []string{t.label(p, r), r.event}
		for _, name := range columns {
			row = append(row, t.cell(i, name))
		}
		table.Rows = append(table.Rows, row)
	}
	p.PrintRuled(table)
}

// Next prints a line for each row since the last call, with the artifacts that the row changed.
func (t *Trace) Next(p *Printer) {
	for ; t.printedRows < len(t.rows); t.printedRows++ {
		r := t.rows[t.printedRows]
		words := []string{t.label(p, r), r.event}
		for _, name := range t.lines {
			if change := t.change(t.printedRows, name); change != "" && (t.Columns == nil || slices.Contains(t.Columns, name)) {
				words = append(words, name+": "+change)
			}
		}
		p.Printf("%s\n", strings.TrimSpace(strings.Join(words, "  ")))
	}
}

func (t *Trace) cell(row int, name string) string {
	if t.Diff {
		return t.change(row, name)
	}
	return cell(t.rows[row].values[name])
}

// change returns what changed in an artifact since the row before. It returns "" if nothing changed.
func (t *Trace) change(row int, name string) string {
	var before any
	if row > 0 {
		before = t.rows[row-1].values[name]
	}
	after := t.rows[row].values[name]
	switch {
	case reflect.DeepEqual(before, after):
		return ""
	case before == nil:
		return cell(after)
	}
	return cell(before) + " → " + cell(after)
}

// label returns the name of the row's state. If the state was entered more than once, the name includes the number of the visit. For the
// last row it returns the status of the run, with the reason.
func (t *Trace) label(p *Printer, r traceRow) string {
	switch {
	case r.end != "":
		status, reason, _ := strings.Cut(r.end, " ")
		return strings.TrimSpace("■ " + p.Status(status) + " " + reason)
	case r.fork:
		return "⑂ " + r.to
	case t.visits[r.to] > 1:
		return fmt.Sprintf("→ %s (%d)", r.to, r.visit)
	}
	return "→ " + r.to
}

var hash = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// cell shortens a value: a hash to seven digits, a test report to "2/5 pass".
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return none
	case accumulated:
		return strconv.Itoa(v.writes) + "× … " + Shorten(cell(v.last), cellWidth-8)
	case string:
		if hash.MatchString(v) {
			return v[:7]
		}
		return Shorten(v, cellWidth)
	case []byte:
		return fmt.Sprintf("%d bytes", len(v))
	case json.RawMessage:
		if text, ok := testCounts(v); ok {
			return text
		}
		return Shorten(string(v), cellWidth)
	}
	return Shorten(fmt.Sprint(value), cellWidth)
}

// testCounts reads {"passed": n, "total": m, ...}.
func testCounts(raw json.RawMessage) (string, bool) {
	var report struct {
		Passed *int `json:"passed"`
		Total  *int `json:"total"`
	}
	if strictjson.Decode(raw, &report, strictjson.Foreign) != nil || report.Passed == nil || report.Total == nil {
		return "", false
	}
	return fmt.Sprintf("%d/%d pass", *report.Passed, *report.Total), true
}
