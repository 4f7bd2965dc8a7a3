// Package depot is pawl.v1.StoreService: what is asked of the whole store at once.
//
// Owns: that one call of each kind is under way, and how their answers are sent.
// Keeps: what is sent is in memory a piece at a time; a call that ends, for any reason, lets
// go of the moment at which it reads.
package depot
