// Package agenda keeps how far schedules are.
//
// Owns: the rows of schedules.
// Keeps: a mark is on disk when Put returns; marks of one schedule are put one after the other.
package agenda
