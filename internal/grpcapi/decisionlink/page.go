package decisionlink

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

//go:embed page.css
var pageStyle string

// policy is the Content-Security-Policy of every page. A page cannot load or run anything. Its style
// sheet is identified by its hash, and its form can be sent only to this server.
var policy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// page is what one page shows.
type page struct {
	// Title and Text describe the situation.
	Title, Text string
	// Call is the tool call that the page shows, which waits for approval. It is nil if the page shows none.
	Call *shownCall
	// Ask means that the page has the two buttons for a decision.
	Ask bool
}

// shownCall is a tool call that waits for approval, as the page shows it.
type shownCall struct {
	Tool, Arguments, Run, Pack, State, Digest, Person, Since, Until, Then, LinkEnds, ConditionError string
	Step                                                                                            uint32
}

// write writes a page as the answer.
func write(w http.ResponseWriter, r *http.Request, status int, p page) {
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
		_, _ = w.Write([]byte(p.html()))
	}
}

// html returns the page as HTML. It does not use html/template, because with that package the linker
// keeps unused methods, and the program becomes 6 MB larger. Every value is the text of an element and
// is escaped by html.EscapeString.
func (p page) html() string {
	var b strings.Builder
	add := func(format string, values ...string) {
		escaped := make([]any, len(values))
		for i, value := range values {
			escaped[i] = html.EscapeString(value)
		}
		fmt.Fprintf(&b, format, escaped...)
	}
	b.WriteString(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
`)
	add("<title>%s</title>\n", p.Title)
	b.WriteString("<style>" + pageStyle + "</style>\n</head>\n<body>\n")
	add("<h1>%s</h1>\n<p>%s</p>\n", p.Title, p.Text)
	if c := p.Call; c != nil {
		add("<pre>%s</pre>\n<dl>\n<dt>Tool</dt><dd>%s</dd>\n", c.Arguments, c.Tool)
		add("<dt>Run</dt><dd>%s, step %s</dd>\n", c.Run, strconv.FormatUint(uint64(c.Step), 10))
		add("<dt>Pack</dt><dd>%s, state %s</dd>\n<dt>Waits since</dt><dd>%s</dd>\n", c.Pack, c.State, c.Since)
		if c.Until != "" {
			add("<dt>Decide until</dt><dd>%s; without a decision %s</dd>\n", c.Until, c.Then)
		}
		if c.LinkEnds != "" {
			add("<dt>Link ends</dt><dd>%s</dd>\n", c.LinkEnds)
		}
		if c.ConditionError != "" {
			add("<dt>Held because</dt><dd>the condition could not be evaluated: %s</dd>\n", c.ConditionError)
		}
		add("<dt>Digest</dt><dd>%s</dd>\n<dt>You decide as</dt><dd>%s</dd>\n</dl>\n", c.Digest, c.Person)
	}
	if p.Ask {
		b.WriteString(`<form method="post">
<label>Reason, if any <input name="reason" maxlength="1000"></label>
<button name="decision" value="approve">Approve</button>
<button name="decision" value="deny">Deny</button>
</form>
`)
	}
	b.WriteString("</body>\n</html>\n")
	return b.String()
}

// Arguments returns the arguments of a call with one line for each field. Invisible characters, for example
// marks that reverse the direction of text, are written as escapes.
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

// formatTime returns a time in a form for people. For the zero time it returns "".
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2 January 2006, 15:04:05 UTC")
}
