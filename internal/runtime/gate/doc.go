// Package gate lets inputs into the way and knows when the last one has left.
//
// Owns: how much is inside, and whether anything is taken any more.
// Keeps: what was let in leaves before the drain ends; after an unknown commit nothing is let in
// again.
package gate
