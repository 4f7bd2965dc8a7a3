// Package agenda keeps how far schedules are.
//
// Owns: the rows of schedules.
// Called by: the store, which gives it a view and its way to write; its owner hands it to
// who fires schedules.
// May import: layout, codec, the machine.
// Keeps: a mark is on disk when Put returns; marks of one schedule are put one after the other.
package agenda
