package model

import (
	"fmt"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// rawAnswer is the answer of an endpoint, joined from its pieces.
type rawAnswer struct {
	texts   []string
	calls   []rawCall
	refusal string
}

// rawCall is a tool call as the endpoint sent it. Each of the texts may be empty.
type rawCall struct{ id, name, arguments string }

// normalizeAnswer converts the answer of an endpoint to the normalized form that is recorded (ADR 0087). It returns false if
// the answer is empty. round is the number of the request in the turn, and known are the ids of the calls in the
// conversation. normalizeAnswer is a pure function.
func normalizeAnswer(s rawAnswer, round int32, known map[string]bool) (texts []string, calls []*pawlv1.ModelCall, ok bool) {
	taken := make(map[string]bool, len(known)+len(s.calls))
	for id := range known {
		taken[id] = true
	}
	for i, c := range s.calls {
		call := &pawlv1.ModelCall{Id: freeID(wellFormed(c.id), round, i, taken), Name: wellFormed(c.name)}
		call.Arguments, call.BrokenArguments = normalArguments(c.arguments)
		taken[call.GetId()] = true
		calls = append(calls, call)
	}
	spoken := false
	for _, text := range s.texts {
		if text = wellFormed(text); keepsText(text, len(calls) > 0) {
			texts = append(texts, text)
			spoken = spoken || strings.TrimSpace(text) != ""
		}
	}
	return texts, calls, spoken || len(calls) > 0 || strings.TrimSpace(s.refusal) != ""
}

// keepsText reports whether a text of an answer is recorded. An empty text is not. If the answer has tool calls, a text
// of only white space is not recorded either.
func keepsText(text string, calls bool) bool {
	return text != "" && !(calls && strings.TrimSpace(text) == "")
}

// maxID bounds the id of a call, in bytes. The API (pawl.v1) has the same bound.
const maxID = 4096

// freeID returns the provider's id if it is valid and unique, else an id that is made from the round and the index.
func freeID(id string, round int32, index int, taken map[string]bool) string {
	if id != "" && len(id) <= maxID && !taken[id] {
		return id
	}
	own := fmt.Sprintf("call_%d_%d", round, index)
	id = own
	for n := 2; taken[id]; n++ {
		id = fmt.Sprintf("%s_%d", own, n)
	}
	return id
}

// normalArguments returns the arguments as a JSON object. If the model wrote something else, broken is the text that it wrote.
func normalArguments(written string) (arguments, broken string) {
	written = wellFormed(written)
	text := strings.TrimSpace(written)
	if text == "" || text == "null" {
		return "{}", ""
	}
	text = wholeEscapes(text)
	if _, err := strictjson.Object([]byte(text)); err != nil {
		return "{}", written
	}
	return text, ""
}

// knownIDs returns the ids of the calls in a conversation.
func knownIDs(messages []*pawlv1.Message) (map[string]bool, error) {
	known := map[string]bool{}
	for _, m := range messages {
		calls, err := callsOf(m)
		if err != nil {
			return nil, err
		}
		for _, c := range calls {
			known[c.ID] = true
		}
	}
	return known, nil
}
