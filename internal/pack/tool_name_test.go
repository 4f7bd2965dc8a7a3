package pack

import "testing"

// TestNamesWithBlanks: a name that the schema refuses comes with one that it takes.
func TestNamesWithBlanks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ edit, strict, code, hint string }{
		{`tools.t.name = "look up!"`, Newest, "PPSCHEMA-pattern", `Write "look_up": blanks and the other characters are not allowed here.`},
		{`tools.t.name = "2 tools"`, Newest, "PPSCHEMA-pattern", `Write "_2_tools": blanks and the other characters are not allowed here.`},
		{`tools.t.name = "look up"`, "", ruleToolName, `Write the key "t" here as well: a name with blanks is refused by the schema of the format (--strict) and by models.`},
		{`tools.t.name = "look_up"`, "", ruleToolName, "Give the tool one name: write the key here as well, or rename the key."},
		{`id = "Bad Id"`, "", "PPSCHEMA-pattern", `Write "bad-id": blanks and the other characters are not allowed here.`},
		{`version = "1.0"`, "", "PPSCHEMA-pattern", ""},
	} {
		_, found, err := Load(changedPack(t, c.edit), Options{Strict: c.strict})
		if err != nil {
			t.Fatal(err)
		}
		hints := map[string]string{}
		for _, d := range found {
			hints[d.Code] = d.Hint
		}
		if hint, ok := hints[c.code]; !ok || hint != c.hint {
			t.Errorf("%s (strict %q): %v", c.edit, c.strict, found)
		}
	}
}
