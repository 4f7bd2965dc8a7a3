package endpoint

import (
	"encoding/json"
	"fmt"
)

// responsesRules returns what OpenAI's Responses refuse in items that are sent again.
func responsesRules(_ *Case, body map[string]any) string {
	items := list(body["input"])
	calls, outputs := callIDs(items)
	for i, item := range items {
		switch kind(item) {
		case "reasoning":
			if why := reasoningItem(items, i); why != "" {
				return why
			}
		case "function_call":
			id := word(item["call_id"])
			var arguments map[string]any
			switch {
			case id == "" || calls[id] > 1:
				return fmt.Sprintf("input[%d].call_id: %q is empty or not unique", i, id)
			case outputs[id] != 1:
				return fmt.Sprintf("No tool output found for function call %s.", id)
			case json.Unmarshal([]byte(word(item["arguments"])), &arguments) != nil || arguments == nil:
				return fmt.Sprintf("input[%d].arguments: no JSON object: %s", i, text(item["arguments"]))
			}
		case "function_call_output":
			if id := word(item["call_id"]); calls[id] == 0 {
				return fmt.Sprintf("No tool call found for function call output with call_id %s.", id)
			}
		}
	}
	return ""
}

// kind is the type of an item; a message need not say it.
func kind(item map[string]any) string {
	if item["type"] == nil {
		return "message"
	}
	return word(item["type"])
}

// callIDs count the ids of calls and of their outputs.
func callIDs(items []map[string]any) (calls, outputs map[string]int) {
	calls, outputs = map[string]int{}, map[string]int{}
	for _, item := range items {
		switch kind(item) {
		case "function_call":
			calls[word(item["call_id"])]++
		case "function_call_output":
			outputs[word(item["call_id"])]++
		}
	}
	return calls, outputs
}

// reasoningItem refuses reasoning without the item that followed it. Where the endpoint stores no conversation, the
// reasoning must be encrypted.
func reasoningItem(items []map[string]any, i int) string {
	next := i + 1
	for next < len(items) && kind(items[next]) == "reasoning" {
		next++
	}
	follows := next < len(items) && (kind(items[next]) == "function_call" || kind(items[next]) == "message" && items[next]["role"] == "assistant")
	switch {
	case !follows:
		return fmt.Sprintf("Item '%v' of type 'reasoning' was provided without its required following item.", items[i]["id"])
	case word(items[i]["encrypted_content"]) == "":
		return fmt.Sprintf("Item with id '%v' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", items[i]["id"])
	}
	return ""
}
