// Package a2a serves every agent of a registered pack as an A2A 1.0 agent and
// delegates to the agents of other sidecars. A run is a task: the bindings read
// and write the run journal, there is no second store of tasks.
//
// The package holds no behaviour yet; its place in the import table is fixed by
// internal/archtest.
package a2a
