// Package hostos is what internal/store/inspect calls of os, over a simulated disk. It is
// imported in os's place in a simulation, see internal/sim/build.
package hostos
