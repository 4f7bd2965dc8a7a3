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

// The names of the bound of an answer in chat completions. OpenAI's newer models refuse the older name. Many
// other endpoints know only the older name, and may ignore the newer one without an error.
const (
	chatLimit         = "max_tokens"
	chatLimitOfOpenAI = "max_completion_tokens"
)

// MaxTokens returns the bound of an answer in the parameters of a pack; 0 = none.
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

// limitName returns the name by which the bound is sent to the endpoint: the one that it has asked for, else
// OpenAI's newer name for OpenAI.
func (e *Endpoint) limitName() string {
	if e.newer != nil && e.newer.Load() {
		return chatLimitOfOpenAI
	}
	if u, err := url.Parse(e.URL); err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com")) {
		return chatLimitOfOpenAI
	}
	return chatLimit
}

// wantsOther reports whether the endpoint refuses the older name of the bound and asks for the newer one. No
// other error counts, because an endpoint that knows only the older name would ignore the newer one.
func wantsOther(err error, name string) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && name == chatLimit && f.Code == "MODEL_400" && strings.Contains(f.Message, chatLimitOfOpenAI)
}
