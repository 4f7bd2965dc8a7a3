package endpoint

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// blocksOf are the content blocks of a message; a text is one.
func blocksOf(message map[string]any) []map[string]any {
	if s, ok := message["content"].(string); ok {
		return []map[string]any{{"type": "text", "text": s}}
	}
	return list(message["content"])
}

// messagesRules is what Anthropic's endpoint refuses, as its documentation and its errors say.
func messagesRules(_ *Case, body map[string]any) string {
	messages := list(body["messages"])
	if len(messages) == 0 || messages[0]["role"] != "user" {
		return `messages: first message must use the "user" role`
	}
	if n, ok := body["max_tokens"].(float64); !ok || n < 1 {
		return "max_tokens: Field required"
	}
	ids := map[string]bool{}
	for i, message := range messages {
		blocks := blocksOf(message)
		if len(blocks) == 0 && i < len(messages)-1 {
			return fmt.Sprintf("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		for j, block := range blocks {
			if why := blockRules(block, ids); why != "" {
				return fmt.Sprintf("messages.%d.content.%d%s", i, j, why)
			}
		}
		if why := answered(blocks, messages[i+1:]); why != "" {
			return fmt.Sprintf("messages.%d: %s", i, why)
		}
		if why := results(message, blocks, messages[:i]); why != "" {
			return fmt.Sprintf("messages.%d: %s", i, why)
		}
	}
	return trailing(messages[len(messages)-1])
}

var toolUseID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// blockRules is what is wrong with a block; ids are those of the calls before it.
func blockRules(block map[string]any, ids map[string]bool) string {
	switch block["type"] {
	case "text":
		switch said := word(block["text"]); {
		case said == "":
			return ": text content blocks must be non-empty"
		case strings.TrimSpace(said) == "":
			return ": text content blocks must contain non-whitespace text"
		}
	case "tool_use":
		id := word(block["id"])
		switch _, isObject := block["input"].(map[string]any); {
		case ids[id]:
			return ": `tool_use` ids must be unique"
		case !toolUseID.MatchString(id):
			return ".tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
		case !isObject:
			return ".tool_use.input: Input should be a valid dictionary"
		}
		ids[id] = true
	}
	return ""
}

// usesOf are the ids of the calls in blocks, resultsOf those that are answered in them.
func usesOf(blocks []map[string]any) []string    { return named(blocks, "tool_use", "id") }
func resultsOf(blocks []map[string]any) []string { return named(blocks, "tool_result", "tool_use_id") }

func named(blocks []map[string]any, kind, field string) []string {
	var ids []string
	for _, block := range blocks {
		if block["type"] == kind {
			ids = append(ids, word(block[field]))
		}
	}
	return ids
}

// answered refuses a call without a result in the next message.
func answered(blocks, rest []map[string]any) string {
	uses := usesOf(blocks)
	if len(uses) == 0 {
		return ""
	}
	var have []string
	if len(rest) > 0 {
		have = resultsOf(blocksOf(rest[0]))
	}
	missing := slices.DeleteFunc(uses, func(id string) bool { return slices.Contains(have, id) })
	if len(missing) > 0 {
		return fmt.Sprintf("`tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", strings.Join(missing, ", "))
	}
	return ""
}

// results refuses a result that does not answer exactly one call of the message before.
func results(message map[string]any, blocks, before []map[string]any) string {
	have := resultsOf(blocks)
	if len(have) == 0 {
		return ""
	}
	var uses []string
	if len(before) > 0 {
		uses = usesOf(blocksOf(before[len(before)-1]))
	}
	for i, id := range have {
		if message["role"] != "user" || !slices.Contains(uses, id) {
			return fmt.Sprintf("unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", id)
		}
		if slices.Contains(have[:i], id) {
			return "each tool_use must have a single result. Found multiple `tool_result` blocks with id: " + id
		}
	}
	return ""
}

// trailing refuses a last message of the assistant that ends with white space.
func trailing(last map[string]any) string {
	blocks := blocksOf(last)
	if last["role"] != "assistant" || len(blocks) == 0 || blocks[len(blocks)-1]["type"] != "text" {
		return ""
	}
	if said := word(blocks[len(blocks)-1]["text"]); said != strings.TrimRight(said, " \t\r\n") {
		return "messages: final assistant content cannot end with trailing whitespace"
	}
	return ""
}

// messagesThinking refuses thoughts before a call that come back changed or in another place.
func messagesThinking(c *Case, body map[string]any) string {
	for i, message := range list(body["messages"]) {
		blocks := blocksOf(message)
		uses := usesOf(blocks)
		if len(uses) == 0 {
			continue
		}
		round, _ := c.partOfCall(uses[0])
		if round == nil {
			return fmt.Sprintf("messages.%d: a call of the id %s was never made", i, uses[0])
		}
		for j, want := range thoughts(round) {
			if j >= len(blocks) || blocks[j]["type"] != want["type"] {
				return fmt.Sprintf("messages.%d.content.%d.type: Expected `thinking` or `redacted_thinking`, but found %s", i, j, text(blocks[min(j, len(blocks)-1)]["type"]))
			}
			for name, value := range want {
				if !reflect.DeepEqual(blocks[j][name], value) {
					return fmt.Sprintf("messages.%d.content.%d: `thinking` or `redacted_thinking` blocks in an assistant message cannot be modified; these blocks must remain as they were in the original response (%s: %s, sent as %s)", i, j, name, text(blocks[j][name]), text(value))
				}
			}
		}
	}
	return ""
}

// messagesPaused refuses a paused answer that comes back changed, or with a message after it. The model continues the
// answer.
func messagesPaused(c *Case, body map[string]any) string {
	messages := list(body["messages"])
	for i, message := range messages[:max(0, len(messages)-1)] {
		blocks := blocksOf(message)
		if message["role"] != "assistant" || len(blocks) == 0 || messages[i+1]["role"] == "assistant" {
			continue
		}
		if last := word(blocks[len(blocks)-1]["text"]); last != "" && c.paused(last) {
			return fmt.Sprintf("messages.%d: a message follows an answer that was paused (pause_turn): provide it back as it is to let the model continue", i+1)
		}
	}
	return ""
}

// paused tells whether a round was paused behind a text.
func (c *Case) paused(said string) bool {
	return slices.ContainsFunc(c.Rounds, func(r *Round) bool {
		n := len(r.Parts)
		return r.Finish == "pause_turn" && n > 0 && r.Parts[n-1].Text != nil && *r.Parts[n-1].Text == said
	})
}

// thoughts are the blocks of thinking that a round begins with.
func thoughts(r *Round) []map[string]any {
	var all []map[string]any
	for _, p := range r.Parts {
		switch {
		case p.Reasoning != nil:
			all = append(all, map[string]any{"type": "thinking", "thinking": *p.Reasoning, "signature": p.Signature})
		case p.Redacted != "":
			all = append(all, map[string]any{"type": "redacted_thinking", "data": p.Redacted})
		default:
			return all
		}
	}
	return all
}
