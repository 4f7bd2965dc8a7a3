package model

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxErrorText bounds an endpoint's own words in a failure, bytes.
const maxErrorText = 1 << 10

// refused is what an HTTP status says.
func (e *Endpoint) refused(status int, header http.Header, said string) *Failure {
	f := &Failure{Code: "MODEL_" + strconv.Itoa(status), RetryAfter: retryAfter(header)}
	f.Message = strings.TrimSpace(fmt.Sprintf("model %s: %d %s", e.Name, status, http.StatusText(status)))
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.Code, f.Final = CodeUnauthorized, true
		f.Message += ": the endpoint does not take the key of " + KeyVariable(e.Name) + " or --model-key"
	case status == http.StatusTooManyRequests:
		f.Code = CodeRateLimited
	case final(status):
		f.Final = true
	}
	if said != "" {
		f.Message += ": " + e.errorText(said)
	}
	return f
}

// final: no further attempt helps after a status.
func final(status int) bool {
	return status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict && status != http.StatusTooEarly && status != http.StatusTooManyRequests
}

// errorText is an endpoint's own words as a failure has them. The key goes first: cut in two it would not
// be known any more.
func (e *Endpoint) errorText(said string) string {
	return clip(e.hideParts(e.hide(said)), maxErrorText)
}

// partOfKey is how many bytes of the key in a row are hidden in an endpoint's error: what it says of a
// key that it does not take often has the beginning and the end of it.
const partOfKey = 4

// hideParts takes parts of the key out of a text.
func (e *Endpoint) hideParts(text string) string {
	if len(e.Key) < 2*partOfKey {
		return text
	}
	text = clip(text, maxErrorText+len(e.Key))
	var out strings.Builder
	for len(text) > 0 {
		n := 0
		for n < len(text) && strings.Contains(e.Key, text[:n+1]) {
			n++
		}
		if n < partOfKey {
			n = 1
			out.WriteByte(text[0])
		} else if !strings.HasSuffix(out.String(), hidden) {
			out.WriteString(hidden)
		}
		text = text[n:]
	}
	return out.String()
}

// longestWait is the longest that the contract takes.
const longestWait = 24 * time.Hour

// retryAfter reads the header, in milliseconds, seconds or as a date.
func retryAfter(header http.Header) time.Duration {
	if header == nil {
		return 0
	}
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return wait(ms * float64(time.Millisecond))
	}
	text := header.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return wait(s * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return wait(float64(time.Until(at)))
	}
	return 0
}

func wait(ns float64) time.Duration {
	if !(ns > 0) || math.IsInf(ns, 0) {
		return 0
	}
	return time.Duration(min(ns, float64(longestWait)))
}

// cut says that a stream ended before its answer did.
func (e *Endpoint) cut() *Failure {
	return &Failure{Code: CodeCut, Message: "model " + e.Name + ": the stream ended in the midst of the answer"}
}

// broken is a fault that an endpoint tells of in the midst of its answer.
func (e *Endpoint) broken(fault gjson.Result) *Failure {
	return e.faulty(fault, &Failure{Code: CodeCut, Message: "model " + e.Name + ": the endpoint broke off its answer"})
}

// faulty says what a fault in a body says: f, of another code where the fault's own words say which.
func (e *Endpoint) faulty(fault gjson.Result, f *Failure) *Failure {
	f.Code, f.Final = classOf(fault, f.Code)
	if f.Code == CodeUnauthorized {
		f.Message += ": it does not take the key of " + KeyVariable(e.Name) + " or --model-key"
	}
	if said := wordsIn(fault, 0); said != "" {
		f.Message += ": " + e.errorText(said)
	}
	return f
}

// classes are words of a fault's type or code, and what they mean.
var classes = []struct {
	word  string
	code  string
	final bool
}{
	{"insufficient_quota", "MODEL_402", true}, {"billing", "MODEL_402", true}, {"not_found", "MODEL_404", true}, {"too_large", "MODEL_413", true},
	{"rate_limit", CodeRateLimited, false}, {"resource_exhausted", CodeRateLimited, false}, {"too_many_requests", CodeRateLimited, false},
	{"authentication", CodeUnauthorized, true}, {"permission", CodeUnauthorized, true}, {"invalid_api_key", CodeUnauthorized, true},
	{"invalid_request", "MODEL_400", true}, {"invalid_argument", "MODEL_400", true}, {"context_length", "MODEL_400", true}, {"invalid_prompt", "MODEL_400", true},
}

// classOf is the code of a fault, and whether a further attempt can help: by a status that it says,
// else by its words.
func classOf(fault gjson.Result, usual string) (code string, last bool) {
	for _, name := range []string{"code", "status", "status_code"} {
		switch status := int(fault.Get(name).Int()); {
		case status == http.StatusTooManyRequests:
			return CodeRateLimited, false
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			return CodeUnauthorized, true
		case status >= 400 && status < 600:
			return "MODEL_" + strconv.Itoa(status), final(status)
		}
	}
	for _, name := range []string{"code", "type", "status"} {
		word := strings.ToLower(textAt(fault, name))
		for _, c := range classes {
			if strings.Contains(word, c.word) {
				return c.code, c.final
			}
		}
	}
	return usual, false
}

// faultWords are what a body says of a fault, in any shape of JSON; the title of a page, or its first
// words.
func faultWords(body []byte) string {
	if text := strings.TrimSpace(string(body)); strictjson.CheckLenient(body) != nil {
		return firstWords(text)
	}
	return wordsIn(seen(body), 0)
}

// wordsAt are where faults have their words, in order.
var wordsAt = []string{"error", "message", "detail", "error_description", "msg", "title", "errors", "reason", "code", "type"}

// maxWordsDepth bounds how deep the words of a fault are.
const maxWordsDepth = 6

func wordsIn(v gjson.Result, depth int) string {
	if depth == maxWordsDepth {
		return ""
	}
	if v.IsArray() {
		for _, item := range v.Array() {
			if said := wordsIn(item, depth+1); said != "" {
				return said
			}
		}
		return ""
	}
	if !v.IsObject() {
		return wellFormed(textIn(v))
	}
	for _, name := range wordsAt {
		if said := wordsIn(v.Get(name), depth+1); said != "" {
			return said
		}
	}
	return ""
}

var (
	titleOfPage = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	notWords    = regexp.MustCompile(`(?is)<(script|style)[^>]*>.*?</(script|style)>|<[^>]*>`)
)

// maxWords bounds the first words of a page, bytes.
const maxWords = 200

// firstWords are those of a page, or of a text.
func firstWords(page string) string {
	if title := titleOfPage.FindStringSubmatch(page); title != nil && strings.TrimSpace(title[1]) != "" {
		page = title[1]
	}
	return clip(wellFormed(strings.Join(strings.Fields(notWords.ReplaceAllString(page, " ")), " ")), maxWords)
}
