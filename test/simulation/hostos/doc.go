// Package hostos is what internal/store/datadir calls of os, over a simulated disk. It is
// imported in os's place in a simulation, see test/simulation/build.
package hostos
