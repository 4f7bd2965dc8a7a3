// Package damage damages the files of a data directory at random, for tests: it flips a byte,
// clears a sector, or cuts, empties or deletes a file.
package damage
