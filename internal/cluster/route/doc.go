// Package route takes calls to the node that has the store.
//
// Owns: the table that says of every method how it is routed and when it may be made again, the
// seat of this node's house with the calls that are inside, and what becomes of calls while the
// store goes from one node to another.
// Called by: the edge, as the last of its interceptors and as its handler of agents' requests
// over HTTP; the port of peers, for calls that other nodes send; internal/cluster/node, which
// puts the house in and takes it out.
// May import: policy, machine, gen, and of the edge what a caller, an error and bytes that are a
// message are.
// Keeps: a call is made at a house whose store is this node's or not at all. One that was not
// begun, or that is the same when it is made once more, goes to the next owner without its caller
// hearing of it; no caller hears NOT_OWNER.
//
// The answer of a unary call that another node gave is sent.Message, the bytes as they came:
// whoever looks into it has to decode it.
package route
