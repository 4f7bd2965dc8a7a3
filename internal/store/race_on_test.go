//go:build race

package store

// raced means that the race detector is enabled. Badger 4.9.6 reads its newest version without a lock when it
// begins to rewrite a value log (db.go: MaxVersion), while another goroutine may write it.
const raced = true
