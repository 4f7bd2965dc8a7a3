// Package a2a serves every agent of a registered pack as an A2A 1.0 agent. A run is a task: the
// bindings read and write the run journal, there is no second store of tasks.
//
// One [Service] answers the eleven methods. gRPC reaches it as the generated service, JSON-RPC and
// HTTP+JSON through transcoders that turn ProtoJSON into the same messages ([Service.Handler]).
// What a client sees of a task is the projection of the run's records (see projector): streams,
// snapshots and a stream that is taken up again are one reading of the journal.
//
// Invariant: a task has nothing that is not in the journal.
package a2a
