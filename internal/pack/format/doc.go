// Package format writes packs in one standard form. [Source] returns a document with the properties in the order of the format, an
// indentation of two spaces, and the comments of YAML.
//
// Owns: the standard form. Package source owns reading.
//
// Guarantees: the result has the same values, so the pack keeps its digest, and it has the same comments. A document for which this is
// impossible is refused. Formatting a result again changes nothing.
package format
