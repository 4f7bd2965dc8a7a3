package pgkv

// CommitTexts are the statements of a commit for a schema.
func CommitTexts(schema string) []string {
	texts := statementsOf(schema)
	return []string{texts.commit, texts.over}
}
