package endpoint

import (
	"encoding/json"
	"fmt"
	"slices"
)

// callsOf are the tool calls of a message of chat completions.
func callsOf(message map[string]any) []map[string]any { return list(message["tool_calls"]) }

func idsOf(calls []map[string]any) []string {
	var ids []string
	for _, call := range calls {
		ids = append(ids, word(call["id"]))
	}
	return ids
}

// chatPairs refuses a call of an assistant that is not answered by exactly one message `tool` right after it.
func chatPairs(_ *Case, body map[string]any) string {
	messages := list(body["messages"])
	for i := 0; i < len(messages); i++ {
		open := idsOf(callsOf(messages[i]))
		if len(open) == 0 {
			if messages[i]["role"] == "tool" {
				return fmt.Sprintf("messages.%d: messages with role 'tool' must be a response to a preceding message with 'tool_calls'", i)
			}
			continue
		}
		first := i
		for i+1 < len(messages) && messages[i+1]["role"] == "tool" {
			i++
			id := word(messages[i]["tool_call_id"])
			found := slices.Index(open, id)
			if found < 0 {
				return fmt.Sprintf("messages.%d: tool_call_id %q answers no open call", i, id)
			}
			open = slices.Delete(open, found, found+1)
		}
		if len(open) > 0 {
			return fmt.Sprintf("messages.%d: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; without: %q", first, open)
		}
	}
	return ""
}

// chatUnique refuses ids of calls that are missing or not unique in the conversation.
func chatUnique(_ *Case, body map[string]any) string {
	seen := map[string]bool{}
	for i, message := range list(body["messages"]) {
		for _, id := range idsOf(callsOf(message)) {
			if id == "" || seen[id] {
				return fmt.Sprintf("messages.%d: the tool call id %q is empty or not unique", i, id)
			}
			seen[id] = true
		}
	}
	return ""
}

// chatArguments refuses arguments of a call that are not the text of a JSON object.
func chatArguments(_ *Case, body map[string]any) string {
	for i, message := range list(body["messages"]) {
		for _, call := range callsOf(message) {
			given, isText := at(call, "function", "arguments").(string)
			var arguments map[string]any
			if !isText || json.Unmarshal([]byte(given), &arguments) != nil || arguments == nil {
				return fmt.Sprintf("messages.%d: the arguments of a call are no JSON object: %q", i, given)
			}
		}
	}
	return ""
}

// chatNonempty refuses a message without content and calls. Messages of tools may be empty.
func chatNonempty(_ *Case, body map[string]any) string {
	for i, message := range list(body["messages"]) {
		content := message["content"]
		parts, isList := content.([]any)
		empty := content == nil || content == "" || isList && len(parts) == 0
		if empty && message["role"] != "tool" && len(callsOf(message)) == 0 {
			return fmt.Sprintf("messages.%d: all messages must have non-empty content (%v)", i, message["role"])
		}
	}
	return ""
}

// chatSignature refuses a call that comes back without the signature of its thought.
func chatSignature(c *Case, body map[string]any) string {
	for i, message := range list(body["messages"]) {
		for j, call := range callsOf(message) {
			_, part := c.partOfCall(word(call["id"]))
			if part == nil || part.Extra == "" {
				continue
			}
			var extra map[string]any
			_ = json.Unmarshal([]byte(part.Extra), &extra) // checked when the case was read
			want := at(extra, "extra_content", "google", "thought_signature")
			if got := at(call, "extra_content", "google", "thought_signature"); got != want {
				return fmt.Sprintf("messages.%d: Function call is missing a thought_signature in functionCall parts, position %d: %v, sent as %v", i, j, got, want)
			}
		}
	}
	return ""
}

// chatReasoning refuses an assistant message with calls that comes back without its reasoning_content.
func chatReasoning(c *Case, body map[string]any) string {
	for i, message := range list(body["messages"]) {
		calls := callsOf(message)
		if len(calls) == 0 {
			continue
		}
		round, _ := c.partOfCall(word(calls[0]["id"]))
		if round == nil {
			return fmt.Sprintf("messages.%d: a call of the id %v was never made", i, calls[0]["id"])
		}
		if got, want := word(message["reasoning_content"]), round.reasoning(); got != want {
			return fmt.Sprintf("messages.%d: The reasoning_content in the thinking mode must be passed back to the API: %q, sent as %q", i, got, want)
		}
	}
	return ""
}

// chatThoughtID refuses a changed id of a call. A proxy stores the signature of a thought in the id.
func chatThoughtID(c *Case, body map[string]any) string {
	for i, message := range list(body["messages"]) {
		for _, call := range callsOf(message) {
			id := word(call["id"])
			if _, said := c.partOfCall(id); said == nil {
				return fmt.Sprintf("messages.%d: Function call is missing a thought_signature: an id of %d characters that was never sent", i, len(id))
			}
		}
		if id := word(message["tool_call_id"]); message["role"] == "tool" {
			if _, said := c.partOfCall(id); said == nil {
				return fmt.Sprintf("messages.%d: tool_call_id of %d characters that was never sent", i, len(id))
			}
		}
	}
	return ""
}
