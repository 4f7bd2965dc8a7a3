//go:build race

package store

// raced: the race detector looks. Badger 4.9.6 reads its newest version without a lock when it
// begins to rewrite a value log (db.go: MaxVersion), beside whoever writes.
const raced = true
