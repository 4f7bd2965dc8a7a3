package pgkv

// CommitTexts are the statements of a commit for a schema.
func CommitTexts(schema string) []string {
	texts := statementsOf(schema)
	return append(texts.commit[:], texts.over[:]...)
}
