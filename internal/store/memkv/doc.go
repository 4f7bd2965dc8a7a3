// Package memkv is an engine in memory, for tests alone: the contract of kv without a file.
//
// Owns: nothing that outlives the process. It takes every freedom that the contract gives: a view
// shows the newest group, not the one that was asked for, and it panics when a caller reads what was
// let go of.
// Keeps: what kvtest holds every engine to.
package memkv
