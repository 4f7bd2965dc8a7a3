// Package a2a serves every agent of a registered pack as an A2A 1.0 agent. A run is a task. The
// bindings read and write the journal of the run, and there is no second store of tasks.
//
// One [Service] implements the eleven methods. gRPC calls it as the generated service. JSON-RPC and
// HTTP+JSON call it through transcoders that convert ProtoJSON to the same messages
// ([Service.Handler]). A client sees a task that is computed from the run's records (see projector).
// Streams, snapshots and resumed streams all read the same journal.
//
// Guarantees: everything in a task comes from the journal, except that a worker has received the first
// turn, and the text about what a task waits for. Only this process knows these two.
package a2a
