// Package pipes is the network between simulated sidecars that share a database: in a simulation
// internal/cluster/transport listens and dials here in place of TCP, see test/simulation/build. Who is cut
// off reaches nobody and is reached by nobody; the connections of a process that is stopped are
// open, and nothing comes of them until it goes on.
package pipes
