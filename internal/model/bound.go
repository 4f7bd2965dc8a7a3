package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// The names of the bound of an answer in chat completions. OpenAI's own newer models refuse the
// older one, which is the only one that many other endpoints know: one that does not know the
// newer one may pass over it without a word.
const (
	chatLimit         = "max_tokens"
	chatLimitOfOpenAI = "max_completion_tokens"
)

// MaxTokens is the bound of an answer that the parameters of a pack say; 0 = they say none.
func (e *Endpoint) MaxTokens(parameters map[string]json.RawMessage) (int64, error) {
	value, ok := parameters[chatLimit]
	if !ok {
		return 0, nil
	}
	n := gjson.ParseBytes(value)
	if n.Type != gjson.Number || n.Num != math.Trunc(n.Num) || n.Num < 1 || n.Num > maxTokens {
		return 0, fmt.Errorf("model %s: parameters.%s is %.40s, want a whole number from 1 to %d", e.Name, chatLimit, value, int64(maxTokens))
	}
	return int64(n.Num), nil
}

// limitName is the name by which the endpoint is told of the answer's bound: the one that it has
// asked for, else OpenAI's for OpenAI.
func (e *Endpoint) limitName() string {
	if e.newer != nil && e.newer.Load() {
		return chatLimitOfOpenAI
	}
	if u, err := url.Parse(e.URL); err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com")) {
		return chatLimitOfOpenAI
	}
	return chatLimit
}

// wantsOther: the endpoint refuses the bound of the answer by its older name, and names the newer
// one. Nothing else is taken for that: an endpoint that knows only the older one would pass over
// the newer.
func wantsOther(err error, name string) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && name == chatLimit && f.Code == "MODEL_400" && strings.Contains(f.Message, chatLimitOfOpenAI)
}
