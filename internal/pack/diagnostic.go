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
	// SeverityError refuses the pack.
	SeverityError Severity = "error"
	// SeverityWarning lets it pass.
	SeverityWarning Severity = "warning"
)

// Diagnostic is one finding about a document.
type Diagnostic struct {
	// Code is stable: PP<RFC>-<rule> for a rule of a PromptPack RFC,
	// PPSCHEMA-<keyword> for a schema rule, PPPAWL-<n> for a rule of this
	// product. [Rules] lists them.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Pointer is the RFC 6901 JSON pointer of the value; "" is the document.
	Pointer string `json:"pointer"`
	// Line and Column are 1-based; columns count characters. 0 when the finding
	// has no place in the source.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Message says what is wrong and, where there is a choice, what is allowed.
	Message string `json:"message"`
	// Hint says how to repair it; may be empty.
	Hint string `json:"hint"`
}

// String is the one-line form "line:column: severity code: message".
func (d Diagnostic) String() string {
	return fmt.Sprintf("%d:%d: %s %s: %s", d.Line, d.Column, d.Severity, d.Code, d.Message)
}

// HasErrors says whether one of the findings refuses the pack.
func HasErrors(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// maxDiagnostics bounds what one document can make us report.
const maxDiagnostics = 200

// findings collects diagnostics of one document.
type findings struct {
	root    *source.Node
	list    []Diagnostic
	seen    map[string]bool
	dropped int
	// errors counts the findings of SeverityError, dropped ones included.
	errors int
	// accepted: the document was accepted by an earlier version of the rules.
	accepted bool
}

func newFindings() *findings { return &findings{seen: map[string]bool{}} }

// err reports what refuses the pack, about the value at pointer.
func (f *findings) err(code, pointer, hint, format string, args ...any) {
	f.errors++
	f.report(Diagnostic{Code: code, Severity: SeverityError, Pointer: pointer, Hint: hint}, format, args)
}

// warn reports what lets the pack pass, about the value at pointer.
func (f *findings) warn(code, pointer, hint, format string, args ...any) {
	f.report(Diagnostic{Code: code, Severity: SeverityWarning, Pointer: pointer, Hint: hint}, format, args)
}

// tightened reports what refuses a new pack, by a rule that is younger than packs that
// may be registered: these stay as they are, since runs depend on them.
func (f *findings) tightened(code, pointer, hint, format string, args ...any) {
	if f.accepted {
		f.warn(code, pointer, hint, format, args...)
		return
	}
	f.err(code, pointer, hint, format, args...)
}

// report places a finding in the source and files it. The same finding twice is
// filed once; beyond the limit findings are only counted.
func (f *findings) report(d Diagnostic, format string, args []any) {
	if len(f.list) >= maxDiagnostics && !f.evictWarning(d.Severity) {
		f.dropped++
		return
	}
	d.Line, d.Column = f.root.Position(d.Pointer, placedAtKey[d.Code])
	f.file(d, fmt.Sprintf(format, args...))
}

// place reports an error of the reader, which knows line and column itself.
func (f *findings) place(code, pointer string, line, col int, hint, format string, args ...any) {
	f.errors++
	d := Diagnostic{Code: code, Severity: SeverityError, Pointer: pointer, Line: line, Column: col, Hint: hint}
	if len(f.list) >= maxDiagnostics {
		f.dropped++
		return
	}
	f.file(d, fmt.Sprintf(format, args...))
}

func (f *findings) file(d Diagnostic, msg string) {
	d.Message = source.Clip(msg, 1024)
	key := d.Code + "\x00" + d.Pointer + "\x00" + d.Message
	if f.seen[key] {
		return
	}
	f.seen[key] = true
	d.Pointer = source.Clip(d.Pointer, 1024)
	f.list = append(f.list, d)
}

// full says that further warnings would not be listed.
func (f *findings) full() bool { return len(f.list) >= maxDiagnostics }

// evictWarning drops the last warning for an error, so that no error hides behind warnings.
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

// sorted returns the findings in source order.
func (f *findings) sorted() []Diagnostic {
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

// quote renders a name from the document inside a message.
func quote(s string) string { return fmt.Sprintf("%q", source.Clip(s, 80)) }

// LogWarnings logs what was found in the pack of a file that was registered: all of it at level
// debug, and in one line at level warn what its author relies on and what does not hold here.
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
