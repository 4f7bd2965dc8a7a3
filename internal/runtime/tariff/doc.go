// Package tariff knows what models cost that their packs do not price: the operator's
// table.
//
// Owns: the table in force, and who of a run's models has no price at all.
// Called by: the way, when a run begins and when usage comes in.
// May import: the machine.
// Keeps: a price is stamped into the input that it is for, so that a table which is
// replaced changes nothing that was. A nil [Table] knows no price.
package tariff
