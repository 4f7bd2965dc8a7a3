// Package seal encrypts the values of one run in the rows that hold them, under a key of that run.
//
// It owns the encryption. internal/store/keyring keeps the secrets.
//
// Keeps: the same bytes under the same key give the same sealed bytes, so that a proof can make
// them again. Other bytes in the same place have another nonce.
//
// Concurrency: a [Key] is safe for concurrent use.
package seal
