// Package damage hurts the files of a data directory at random: a byte flipped, a sector
// cleared, a file cut, emptied or deleted. Used by tests.
package damage
