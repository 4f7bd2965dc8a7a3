package decisionlink

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
	"unicode"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// pages is the template of all pages.
var pages = template.Must(template.New("page").Parse(pageText))

// policy is the Content-Security-Policy of every page. A page loads and runs nothing, its style sheet is
// identified by its hash, and its form can only be sent to this server.
var policy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// page is the data of the template.
type page struct {
	// Title and Text describe the situation.
	Title, Text string
	// Call is the held call; nil if the page shows none.
	Call *shownCall
	// Ask means that the page has the two buttons.
	Ask bool
	// Style is the style sheet, which the page contains.
	Style template.CSS
}

// shownCall is the held call as the page shows it.
type shownCall struct {
	Tool, Arguments, Run, Pack, State, Digest, Person, Since, Until, Then, LinkEnds, ConditionError string
	Step                                                                                            uint32
}

// write writes a page as the answer.
func write(w http.ResponseWriter, r *http.Request, status int, p page) {
	p.Style = template.CSS(pageStyle) //nolint:gosec // it is a file of this package
	var body bytes.Buffer
	if err := pages.Execute(&body, p); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes())
	}
}

// Arguments returns the arguments of a call with one line for each field. Characters that cannot be seen,
// such as marks that reverse the direction of text, are written as escapes.
func Arguments(payload string) string {
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(payload), "", "  ") == nil {
		payload = indented.String()
	}
	var b strings.Builder
	for _, r := range payload {
		switch {
		case r == '\n' || r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// moment returns a time for people, or "" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2 January 2006, 15:04:05 UTC")
}
