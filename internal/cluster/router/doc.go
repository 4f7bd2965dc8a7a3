// Package router sends each call to the node that owns the partition of the call.
//
// A store is divided in partitions, each a store of its own with a runtime on it. Every namespace
// is in one partition, and a call belongs to the partition of its namespace. A call about all
// partitions is made at each of them (whole.go). The rest of the calls without a namespace belong
// to the first partition.
//
// Owns: the table with the routing of every method and when a call may be made again; the
// partition of each call; the slots of this node's partitions with the calls inside; and what
// becomes of calls while a partition moves to another node.
// Keeps: a call is made at the runtime of its partition, while this node owns it, or not at all. A
// call that has not begun, or that has the same effect twice as once, goes to the next owner, and
// its caller does not notice; no caller gets NOT_OWNER. The namespace of a call is what the runtime
// will read too. The namespace of a stream does not change once the stream has begun. Calls of a
// partition wait for nothing of another one.
//
// The answer of a unary call from another node is an encoded.Message, the bytes as they came. A
// reader of its fields decodes it first.
package router
