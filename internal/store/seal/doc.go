// Package seal encrypts the values of one run in the rows that hold them, under a key of that run.
//
// It owns the encryption. internal/store/keyring keeps the secrets.
//
// Invariant: the same bytes under the same key always give the same sealed bytes, so that a proof
// can compute them again. Different bytes in the same place have different nonces.
//
// Concurrency: a [Key] is safe for concurrent use.
package seal
