// Package seal encrypts the values of one erasable run with a key of that run. Destroying the key
// erases the values.
//
// Owns: the encryption. internal/store/keyring keeps the secrets.
//
// Guarantees: the same bytes with the same key always give the same encrypted bytes, so that a check
// can compute them again. Different bytes in the same place have different nonces.
//
// Concurrency: a [Key] is safe for concurrent use.
package seal
