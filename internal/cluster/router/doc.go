// Package router sends each call to the node that owns the partition of the call.
//
// A store consists of partitions. Each partition is a store of its own with its own runtime. Every
// namespace is in one partition, and a call belongs to the partition of its namespace. A call that
// concerns all partitions is made in each of them (fan_out.go). All other calls without a namespace
// belong to the first partition.
//
// Owns: the table that defines how every method is routed and when a call may be retried; the partition
// of each call; the slots of this node's partitions with the running calls; and the handling of calls
// while a partition moves to another node.
//
// Guarantees: a call is executed by the runtime of its partition while this node owns the partition, or
// not at all. A call that has not begun or is idempotent is sent to the next owner, and its caller does
// not notice this. No caller gets NOT_OWNER. The router reads the namespace of a call in the same way
// as the runtime. After a stream has begun, its namespace does not change. Calls of one partition never
// wait for another partition.
//
// The answer of a unary call from another node is a codec.Message, which contains the unchanged
// bytes. Code that reads a field of the answer must first decode it.
package router
