// Package delegation is the room of what runs delegate: which delegations are pending or called
// off, what each says, and what its agent answered.
//
// Owns: nothing; what there is stands in the rows and records of runs.
// Keeps: a delegation reads the same whenever it is read, also behind the end of its run; what an
// agent tells is an input of the sidecar's own, for which no authority is asked.
package delegation
