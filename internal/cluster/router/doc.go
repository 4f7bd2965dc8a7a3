// Package router takes calls to the node that has their partition.
//
// The store is divided in partitions, each a store of its own with a house over it, and every
// namespace is in one of them: a call belongs to the partition of its namespace. What is of all of them
// is asked of each (whole.go), and the rest of what is of no namespace of the first one.
//
// Owns: the table that says of every method how it is routed and when it may be made again, in which
// partition a call is made, the seats of this node's houses with the calls that are inside, and what
// becomes of calls while a partition goes from one node to another.
// Called by: the edge, as the last of its interceptors and as its handler of agents' requests
// over HTTP; the port of peers, for calls that other nodes send; internal/cluster/membership, which
// puts houses in and takes them out.
// May import: policy, machine, gen, and of the edge what a caller is and which namespace it means, an
// error and bytes that are a message.
// Keeps: a call is made at the house of its partition, while that is the node's, or not at all. One that
// was not begun, or that is the same when it is made once more, goes to the next owner without its caller
// hearing of it; no caller hears NOT_OWNER. Which namespace a call is of is said by what its house will
// read, too, and by nothing else; a stream's does not change once it has begun. Calls of a partition wait
// for nothing that is of another one.
//
// The answer of a unary call that another node gave is sent.Message, the bytes as they came:
// whoever looks into it has to decode it.
package router
