// Package compare lists the differences between two packs and the effect of each difference on runs. [Packs]
// returns a [Report].
//
// Owns: the meaning of differences. Package pack owns the content.
//
// Guarantees: each value that differs is in a [Change]. The short form and the long form of the same value
// count as equal.
package compare
