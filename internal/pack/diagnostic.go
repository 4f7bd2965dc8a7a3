package pack

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// Severity of a diagnostic.
type Severity string

const (
	// SeverityError means that the pack is refused.
	SeverityError Severity = "error"
	// SeverityWarning means that the pack is accepted.
	SeverityWarning Severity = "warning"
)

// Diagnostic is one finding about a document.
type Diagnostic struct {
	// Code is the stable code of the finding. It has the form PP<RFC>-<rule> for a rule of a PromptPack
	// RFC, PPSCHEMA-<keyword> for a schema rule, or PPPAWL-<n> for a rule of this product. [Rules]
	// lists the codes.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Pointer is the RFC 6901 JSON pointer of the value. "" means the document.
	Pointer string `json:"pointer"`
	// Line and Column begin at 1. Columns count characters. Both are 0 if the finding has no position
	// in the source.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Message describes the fault and lists the allowed values.
	Message string `json:"message"`
	// Hint describes how to correct the fault. It may be empty.
	Hint string `json:"hint"`
}

// String returns one line of the form "line:column: severity code: message".
func (d Diagnostic) String() string {
	return fmt.Sprintf("%d:%d: %s %s: %s", d.Line, d.Column, d.Severity, d.Code, d.Message)
}

// HasErrors reports whether one of the findings is an error. A pack with an error is refused.
func HasErrors(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// maxDiagnostics bounds the findings for one document.
const maxDiagnostics = 200

// findings collects diagnostics of one document.
type findings struct {
	root    *source.Node
	list    []Diagnostic
	seen    map[string]bool
	dropped int
	// errors is the number of findings with SeverityError. It includes repeated findings and findings that were dropped from the list.
	errors int
	// accepted means that an earlier version of the rules accepted the document.
	accepted bool
}

func newFindings() *findings { return &findings{seen: map[string]bool{}} }

// err reports an error about the value at pointer. The pack is then refused.
func (f *findings) err(code, pointer, hint, format string, args ...any) {
	f.errors++
	f.report(Diagnostic{Code: code, Severity: SeverityError, Pointer: pointer, Hint: hint}, format, args)
}

// warn reports a warning about the value at pointer. The pack is still accepted.
func (f *findings) warn(code, pointer, hint, format string, args ...any) {
	f.report(Diagnostic{Code: code, Severity: SeverityWarning, Pointer: pointer, Hint: hint}, format, args)
}

// reportTightened reports an error of a rule that is newer than some registered packs. For these packs it
// reports only a warning, because runs depend on them.
func (f *findings) reportTightened(code, pointer, hint, format string, args ...any) {
	if f.accepted {
		f.warn(code, pointer, hint, format, args...)
		return
	}
	f.err(code, pointer, hint, format, args...)
}

// report adds a finding with its position.
func (f *findings) report(d Diagnostic, format string, args []any) {
	d.Message = fmt.Sprintf(format, args...)
	f.file(d, func(d *Diagnostic) { d.Line, d.Column = f.root.Position(d.Pointer, placedAtKey[d.Code]) })
}

// addAt reports a fault that the reader found. The reader has already determined the line and the
// column.
func (f *findings) addAt(code, pointer string, line, col int, hint, format string, args ...any) {
	f.errors++
	d := Diagnostic{Code: code, Severity: SeverityError, Pointer: pointer, Line: line, Column: col, Hint: hint, Message: fmt.Sprintf(format, args...)}
	f.file(d, func(*Diagnostic) {})
}

// file adds a finding to the list, after place has set its position. The same finding is added only once. Above the
// limit, an error replaces the last warning of the list. Other findings are only counted.
func (f *findings) file(d Diagnostic, place func(*Diagnostic)) {
	d.Message = source.Clip(d.Message, 1024)
	key := d.Code + "\x00" + d.Pointer + "\x00" + d.Message
	if f.seen[key] {
		return
	}
	if len(f.list) >= maxDiagnostics && !f.evictWarning(d.Severity) {
		f.dropped++
		return
	}
	f.seen[key] = true
	place(&d)
	d.Pointer = source.Clip(d.Pointer, 1024)
	f.list = append(f.list, d)
}

// isFull reports whether the list is full, so that further warnings are not listed.
func (f *findings) isFull() bool { return len(f.list) >= maxDiagnostics }

// evictWarning removes the last warning from a full list if an error must be added, so that warnings
// never hide an error.
func (f *findings) evictWarning(sev Severity) bool {
	if sev != SeverityError {
		return false
	}
	for i, v := range slices.Backward(f.list) {
		if v.Severity == SeverityWarning {
			f.list = slices.Delete(f.list, i, i+1)
			f.dropped++
			return true
		}
	}
	return false
}

// inSourceOrder returns the findings in source order. If some were dropped, the last finding gives their number.
func (f *findings) inSourceOrder() []Diagnostic {
	slices.SortStableFunc(f.list, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	if f.dropped > 0 {
		f.list = append(f.list, Diagnostic{
			Code: ruleMore, Severity: SeverityWarning,
			Message: fmt.Sprintf("%d more findings are not listed; the limit is %d", f.dropped, maxDiagnostics),
			Hint:    "Repair the ones above and validate again.",
		})
		f.dropped = 0
	}
	return f.list
}

// quote returns a name from the document in quotes, for use in a message.
func quote(s string) string { return fmt.Sprintf("%q", source.Clip(s, 80)) }

// LogWarnings logs the findings about a registered pack. At level warn it logs one line with the settings that have no effect here
// although the author may rely on them, and with the tools whose effects a terminal state may repeat. It logs each of the other findings
// at level debug.
func LogWarnings(ctx context.Context, log *slog.Logger, file string, found []Diagnostic) {
	var loud []string
	for _, d := range found {
		if d.Code == ruleUnenforced || d.Code == ruleOffered || d.Code == ruleToolName {
			loud = append(loud, fmt.Sprintf("%d:%d %s: %s", d.Line, d.Column, d.Code, d.Message))
			continue
		}
		log.DebugContext(ctx, "pack warning", "file", file, "line", d.Line, "column", d.Column, "code", d.Code, "message", d.Message)
	}
	if len(loud) > 0 {
		log.WarnContext(ctx, "pack has warnings", "file", file, "warnings", loud)
	}
}
