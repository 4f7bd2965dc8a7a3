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

// These are the two names of the parameter that bounds the tokens of an answer in chat completions. OpenAI's newer
// models refuse the older name. Many other endpoints know only the older name and may ignore the newer name without
// an error.
const (
	chatLimit         = "max_tokens"
	chatLimitOfOpenAI = "max_completion_tokens"
)

// MaxTokens returns the maximum number of tokens of an answer that the parameters of a pack set. It returns 0 if they
// set none.
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

// limitName returns the name of the parameter that bounds an answer's tokens. It is the newer name if the endpoint
// has asked for it or if the endpoint is OpenAI's. For other endpoints it is the older name.
func (e *Endpoint) limitName() string {
	if e.newer != nil && e.newer.Load() {
		return chatLimitOfOpenAI
	}
	if u, err := url.Parse(e.URL); err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com")) {
		return chatLimitOfOpenAI
	}
	return chatLimit
}

// wantsOther reports whether err means that the endpoint refuses the older name of the parameter that bounds an
// answer, and requests the newer one. It returns false for every other error, because an endpoint that knows only the
// older name would silently ignore the newer one.
func wantsOther(err error, name string) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && name == chatLimit && f.Code == "MODEL_400" && strings.Contains(f.Message, chatLimitOfOpenAI)
}
