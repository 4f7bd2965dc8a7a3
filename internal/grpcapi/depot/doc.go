// Package depot is pawl.v1.StoreService: what is asked of the whole store at once.
//
// Owns: that one call of each kind is under way, and how their answers are sent.
// Called by: grpcapi, which registers it; app gives it the store.
// May import: the contract, fault, sent, and the machine's refusals.
// Keeps: what is sent is in memory a piece at a time; a call that ends, for whatever
// reason, lets go of the moment at which it reads.
package depot
