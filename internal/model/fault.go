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

// maxErrorText bounds the error text of an endpoint in a failure, in bytes.
const maxErrorText = 1 << 10

// statusFailure returns the failure for an HTTP status that is not a success.
func (e *Endpoint) statusFailure(status int, header http.Header, text string) *Failure {
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
	if text != "" {
		f.Message += ": " + e.errorText(text)
	}
	return f
}

// final reports whether no further attempt is useful after a status.
func final(status int) bool {
	return status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict && status != http.StatusTooEarly && status != http.StatusTooManyRequests
}

// errorText returns the error text of an endpoint, for a failure. The key is removed before the text is shortened, because a part of the
// key would not be found.
func (e *Endpoint) errorText(text string) string {
	return clip(e.hideParts(e.hide(text)), maxErrorText)
}

// partOfKey is the length of the shortest part of the key that is removed from an error of an endpoint, in bytes. An
// error about an invalid key often contains the first and last part of the key.
const partOfKey = 4

// hideParts removes parts of the key from a text. It does nothing if the key is shorter than twice partOfKey.
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
		} else if !strings.HasSuffix(out.String(), keyPlaceholder) {
			out.WriteString(keyPlaceholder)
		}
		text = text[n:]
	}
	return out.String()
}

// longestWait is the longest pause before another attempt that the API accepts.
const longestWait = 24 * time.Hour

// retryAfter returns the pause in the headers of a response. The pause is in milliseconds, in seconds or a date.
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

// cutStreamFailure returns the failure for a stream that ended before the answer was complete.
func (e *Endpoint) cutStreamFailure() *Failure {
	return &Failure{Code: CodeCut, Message: "model " + e.Name + ": the stream ended in the midst of the answer"}
}

// midAnswerFailure returns the failure for an error that an endpoint reports in the middle of its answer.
func (e *Endpoint) midAnswerFailure(fault gjson.Result) *Failure {
	return e.addErrorBody(fault, &Failure{Code: CodeCut, Message: "model " + e.Name + ": the endpoint broke off its answer"})
}

// addErrorBody adds the error in a response body to the failure f: its code, its text, and whether another attempt is
// useful.
func (e *Endpoint) addErrorBody(fault gjson.Result, f *Failure) *Failure {
	f.Code, f.Final = classOf(fault, f.Code)
	if f.Code == CodeUnauthorized {
		f.Message += ": it does not take the key of " + KeyVariable(e.Name) + " or --model-key"
	}
	if text := wordsIn(fault, 0); text != "" {
		f.Message += ": " + e.errorText(text)
	}
	return f
}

// classes assigns a failure code to errors whose type or code contains certain words.
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

// classOf returns the failure code for an error, and whether no further attempt is useful. It uses the HTTP status in
// the error or, if there is none, the words of the error. usual is the code for all other errors.
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

// faultWords returns the error text of a body with any JSON structure. For an HTML page it returns the title, or the first words of the
// page.
func faultWords(body []byte) string {
	if text := strings.TrimSpace(string(body)); strictjson.CheckLenient(body) != nil {
		return firstWords(text)
	}
	return wordsIn(parseUnambiguous(body), 0)
}

// wordsAt are the fields that may contain an error text, in order.
var wordsAt = []string{"error", "message", "detail", "error_description", "msg", "title", "errors", "reason", "code", "type"}

// maxWordsDepth bounds the depth in JSON at which an error text is searched.
const maxWordsDepth = 6

// wordsIn returns the first error text in a JSON value, in the order of wordsAt. It returns "" if there is none.
func wordsIn(v gjson.Result, depth int) string {
	if depth == maxWordsDepth {
		return ""
	}
	if v.IsArray() {
		for _, item := range v.Array() {
			if text := wordsIn(item, depth+1); text != "" {
				return text
			}
		}
		return ""
	}
	if !v.IsObject() {
		return wellFormed(textIn(v))
	}
	for _, name := range wordsAt {
		if text := wordsIn(v.Get(name), depth+1); text != "" {
			return text
		}
	}
	return ""
}

var (
	titleOfPage = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	notWords    = regexp.MustCompile(`(?is)<(script|style)[^>]*>.*?</(script|style)>|<[^>]*>`)
)

// maxWords bounds the first words of a page, in bytes.
const maxWords = 200

// firstWords returns the first words of a page or of a text.
func firstWords(page string) string {
	if title := titleOfPage.FindStringSubmatch(page); title != nil && strings.TrimSpace(title[1]) != "" {
		page = title[1]
	}
	return clip(wellFormed(strings.Join(strings.Fields(notWords.ReplaceAllString(page, " ")), " ")), maxWords)
}
