package assertion

// kinds maps each type of check to its definition. aliases maps older spellings to types.
var kinds = map[string]kind{
	"banned_words":     {[]string{"words", "patterns", "match_mode"}, compileExcludes("word_boundary")},
	"content_excludes": {[]string{"words", "patterns", "match_mode"}, compileExcludes("substring")},
	"contains":         {[]string{"patterns"}, contains},
	"contains_any":     {[]string{"patterns"}, containsAny},
	"regex":            {[]string{"pattern", "expect_match"}, matches},
	"max_length":       {[]string{"max", "max_characters", "max_chars", "max_tokens"}, maxLength},
	"min_length":       {[]string{"min", "min_characters", "min_chars"}, minLength},
	"max_sentences":    {[]string{"max", "max_sentences", "min"}, sentences},
	"required_fields":  {[]string{"fields", "required_fields"}, fields},
	"json_valid":       {[]string{"allow_wrapped", "extract_json"}, jsonValid},
	"json_schema":      {[]string{"schema", "allow_wrapped", "extract_json"}, jsonSchema},
	"tools_called":     {[]string{"tools", "tool_names", "min_calls", "max_calls"}, toolsCalled},
	"tools_not_called": {[]string{"tools", "tool_names"}, toolsNotCalled},
	"cost_budget":      {[]string{"max_cost_usd", "max_total_tokens"}, costBudget},
	"latency_budget":   {[]string{"max_ms"}, latencyBudget},
}

var aliases = map[string]string{
	"content_not_includes": "content_excludes",
	"content_includes":     "contains",
	"content_includes_any": "contains_any",
	"content_matches":      "regex",
	"length":               "max_length",
	"sentence_count":       "max_sentences",
	"field_presence":       "required_fields",
	"is_valid_json":        "json_valid",
	"valid_json":           "json_valid",
	"tool_called":          "tools_called",
}

// kindOf returns the definition of a type. The name may be an alias.
func kindOf(typ string) (kind, bool) {
	if name, ok := aliases[typ]; ok {
		typ = name
	}
	k, ok := kinds[typ]
	return k, ok
}
