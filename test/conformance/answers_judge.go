package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/conformance/endpoint"
)

// judgeAnswers compares what came of a case with what must.
func judgeAnswers(c *endpoint.Case, seen *caseOutcome) error {
	var errs []error
	for _, judge := range []func(*endpoint.Expect, *caseOutcome) error{
		judgeRequests, judgeEnd, judgeCalls, judgeLedger, judgeUsage, judgeRecorded, judgeWords,
	} {
		errs = append(errs, judge(&c.Expect, seen))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nfaults: %s", err, shortText(seen.faults()))
	}
	return nil
}

func shortText(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// judgeRequests returns an error if the number of requests is wrong, or the endpoint refused one.
func judgeRequests(e *endpoint.Expect, seen *caseOutcome) error {
	for i, asked := range seen.requests {
		if asked.Breach != "" {
			return fmt.Errorf("request %d: the endpoint refuses: %s", i+1, asked.Breach)
		}
	}
	n := len(seen.requests)
	switch {
	case e.MostRequests > 0 && n > e.MostRequests:
		return fmt.Errorf("requests: at most %d, not %d", e.MostRequests, n)
	case e.Requests > 0 && n != e.Requests:
		return fmt.Errorf("requests: %d, not %d", e.Requests, n)
	}
	for request, seconds := range e.Pauses {
		if request > n {
			continue // too few, which is said elsewhere
		}
		if pause := seen.requests[request-1].At.Sub(seen.requests[request-2].At); pause < time.Duration(seconds*float64(time.Second)) {
			return fmt.Errorf("pause: at least %v s before request %d, not %v", seconds, request, pause)
		}
	}
	return nil
}

// judgeEnd returns an error if the status, the text or the artifact of the ended run is wrong.
func judgeEnd(e *endpoint.Expect, seen *caseOutcome) error {
	if got := strings.TrimPrefix(seen.run.GetStatus().String(), "RUN_STATUS_"); got != e.Status {
		return fmt.Errorf("status: %s, not %s (%s)", e.Status, got, seen.run.GetReason())
	}
	if e.Text != "" && seen.output != e.Text {
		return fmt.Errorf("text: %q, not %q", e.Text, shortText(seen.output))
	}
	if e.Bill != "" && seen.bill != e.Bill {
		return fmt.Errorf("bill: %q, not %q", e.Bill, shortText(seen.bill))
	}
	return nil
}

// judgeCalls returns an error if the recorded tool steps differ from those of the answers, digit for digit.
func judgeCalls(e *endpoint.Expect, seen *caseOutcome) error {
	var want, got []string
	for _, made := range e.Calls {
		want = append(want, wordOf(made.Tool, made.Arguments))
	}
	for _, record := range seen.records {
		if requested := record.GetStepRequested(); requested != nil && requested.GetKind() != pawlv1.StepKind_STEP_KIND_MODEL && requested.GetAttempt() <= 1 {
			got = append(got, wordOf(requested.GetTool(), requested.GetPayloadJson()))
		}
	}
	if e.Endless {
		want = slices.Repeat(want[:1], min(len(got), len(seen.requests)))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("calls: want %s, got %s", shortText(strings.Join(want, "; ")), shortText(strings.Join(got, "; ")))
	}
	return nil
}

// wordOf is a call as text: its tool, and its arguments with sorted names and numbers as they are
// written.
func wordOf(tool, arguments string) string {
	decoder := json.NewDecoder(strings.NewReader(arguments))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return tool + " " + arguments
	}
	text, _ := json.Marshal(value) // of what was JSON
	return tool + " " + string(text)
}

// judgeLedger returns an error unless each tool step reached its tool once, with the recorded payload. Numbers are
// compared as the language reads them.
func judgeLedger(_ *endpoint.Expect, seen *caseOutcome) error {
	steps := map[uint32]*pawlv1.StepRequested{}
	for _, record := range seen.records {
		if requested := record.GetStepRequested(); requested != nil && requested.GetKind() != pawlv1.StepKind_STEP_KIND_MODEL {
			steps[requested.GetStep()] = requested
		}
	}
	times := map[uint32]int{}
	for _, one := range seen.ledger {
		times[one.Step]++
		requested := steps[one.Step]
		if requested == nil {
			return fmt.Errorf("ledger: %s was called in step %d, which is not on record", one.Tool, one.Step)
		}
		var payload any
		if err := json.Unmarshal([]byte(requested.GetPayloadJson()), &payload); err != nil {
			return err
		}
		if one.Tool != requested.GetTool() || !reflect.DeepEqual(payload, one.Payload) {
			return fmt.Errorf("ledger: step %d is %s %s, the tool got %s %s", one.Step, requested.GetTool(), short(payload), one.Tool, short(one.Payload))
		}
	}
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		if times[step] != 1 {
			return fmt.Errorf("ledger: step %d reached %s %d times", step, steps[step].GetTool(), times[step])
		}
	}
	return nil
}

// judgeUsage checks that reported usage is counted once, and that missing usage is estimated.
func judgeUsage(e *endpoint.Expect, seen *caseOutcome) error {
	var got endpoint.Usage
	var estimated int
	var all int64
	for _, record := range seen.records {
		usage := record.GetModelUpdated().GetUsage()
		if done := record.GetStepResolved(); done.GetKind() == pawlv1.StepKind_STEP_KIND_MODEL {
			usage = done.GetUsage()
		}
		all += usage.GetInputTokens() + usage.GetOutputTokens()
		if usage.GetEstimated() {
			estimated++
			continue
		}
		got.Input += usage.GetInputTokens()
		got.Output += usage.GetOutputTokens()
		got.Cached += usage.GetCachedTokens()
	}
	if all != seen.run.GetTokens() {
		return fmt.Errorf("usage: the run has %d tokens, its attempts have %d", seen.run.GetTokens(), all)
	}
	if e.Endless {
		return nil
	}
	if got != *e.Usage || estimated != e.Estimated {
		return fmt.Errorf("usage: want %+v and %d attempts estimated, got %+v and %d", *e.Usage, e.Estimated, got, estimated)
	}
	return nil
}

// judgeRecorded checks that the record is normalized: the model receives unique ids of calls,
// arguments are JSON objects, and no message is empty.
func judgeRecorded(e *endpoint.Expect, seen *caseOutcome) error {
	broken := 0
	for _, got := range seen.models {
		ids := map[string]bool{}
		for _, message := range got.GetMessages() {
			if message.GetRole() != "assistant" || message.GetToolCallsJson() == "" {
				continue
			}
			var calls []struct{ ID, Arguments string }
			if err := json.Unmarshal([]byte(message.GetToolCallsJson()), &calls); err != nil {
				return fmt.Errorf("recorded: step %d: tool_calls_json: %w", got.GetStep().GetStep(), err)
			}
			for _, call := range calls {
				if err := normal(ids, call.ID, call.Arguments); err != nil {
					return fmt.Errorf("recorded: step %d is told: %w", got.GetStep().GetStep(), err)
				}
			}
		}
		for _, call := range got.GetStep().GetModel().GetAnswer().GetCalls() {
			if err := normal(ids, call.GetId(), call.GetArguments()); err != nil {
				return fmt.Errorf("recorded: the answer of step %d: %w", got.GetStep().GetStep(), err)
			}
			if call.GetBrokenArguments() != "" {
				broken++
			}
		}
		if err := checkTexts(got.GetStep().GetModel().GetAnswer()); err != nil {
			return fmt.Errorf("recorded: the answer of step %d: %w", got.GetStep().GetStep(), err)
		}
	}
	if broken != e.Broken {
		return fmt.Errorf("recorded: broken_arguments in %d calls, not %d", e.Broken, broken)
	}
	if broken > 0 && !seen.wasSent("BAD_ARGUMENTS") {
		return errors.New("recorded: the model is not told BAD_ARGUMENTS")
	}
	return nil
}

// wasSent tells whether a word was in a request to the endpoint.
func (s *caseOutcome) wasSent(word string) bool {
	return slices.ContainsFunc(s.requests, func(a endpoint.Request) bool {
		text, _ := json.Marshal(a.Body) // of what was JSON
		return bytes.Contains(text, []byte(word))
	})
}

// normal is what is wrong with a recorded call; ids are those before it.
func normal(ids map[string]bool, id, arguments string) error {
	if id == "" || ids[id] {
		return fmt.Errorf("the id %q of a call is empty or not unique", id)
	}
	ids[id] = true
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
		return fmt.Errorf("the arguments of the call %q are no JSON object: %q", id, shortText(arguments))
	}
	return nil
}

// checkTexts returns an error if an answer has no text, or a blank text beside others.
func checkTexts(answer *pawlv1.ModelAnswer) error {
	if answer == nil {
		return nil
	}
	for _, part := range answer.GetParts() {
		if text, ok := part.GetContent().(*pawlv1.Part_Text); ok && strings.TrimSpace(text.Text) == "" {
			return fmt.Errorf("a part is blank: %q", text.Text)
		}
	}
	if len(answer.GetParts())+len(answer.GetCalls()) == 0 && answer.GetRefusal() == "" {
		return errors.New("it says nothing")
	}
	return enveloped(answer.GetProviderJson())
}

// enveloped is what is wrong with the library's own message of an answer.
func enveloped(text string) error {
	var got struct {
		Library string          `json:"library"`
		Version string          `json:"version"`
		Message json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return fmt.Errorf("provider_json: %w", err)
	}
	if got.Library == "" || got.Version == "" || len(got.Message) == 0 || string(got.Message) == "null" {
		return fmt.Errorf("provider_json: want library, version and message, got %s", shortText(text))
	}
	return nil
}

// judgeWords returns an error if a recorded fault does not contain the words of the endpoint.
func judgeWords(e *endpoint.Expect, seen *caseOutcome) error {
	for _, word := range e.Words {
		if !strings.Contains(seen.faults(), word) {
			return fmt.Errorf("words: %q is in no recorded fault", word)
		}
	}
	return nil
}
