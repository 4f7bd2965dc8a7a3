// Package hostos stands for package os in a simulation: it offers what internal/store/datadir calls
// of os, over a simulated disk.
//
// In a simulation datadir imports it instead of os, see test/simulation/build.
package hostos
