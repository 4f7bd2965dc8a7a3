// Package tariff knows what models cost that their packs do not price: the operator's table.
//
// Owns: the table in force, and who of a run's models has no price at all.
// Keeps: a price is stamped into the input that it is for, so that a table which is replaced
// changes nothing that was. A nil [Table] knows no price.
package tariff
