// Package seal hides the values of one run in the rows that have them, under a key of the run's
// own.
//
// Owns: how bytes are hidden.
// Keeps: the same bytes under the same key make the same sealed bytes, so that a proof can make
// them again; other bytes in the same place have another nonce.
package seal
