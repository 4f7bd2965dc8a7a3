// Package a2a serves every agent of a registered pack as an A2A 1.0 agent. A run is a task: the
// bindings read and write the run journal, and there is no second store of tasks.
//
// One [Service] answers the eleven methods. gRPC reaches it as the generated service, JSON-RPC
// and HTTP+JSON through transcoders that turn ProtoJSON into the same messages
// ([Service.Handler]). A client sees a task as the projection of the run's records (see
// projector): streams, snapshots and resumed streams all read the same journal.
//
// Invariant: everything in a task comes from the journal.
package a2a
