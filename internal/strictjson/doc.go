// Package strictjson reads all JSON on which a decision depends or that leaves the sidecar, so that
// two readers of one text never decode different values.
//
// Owns: the rules for well-formed JSON, for the names of members, and for numbers. A test in
// test/arch lists the packages that read JSON without this package.
//
// Guarantees: a value that [Check] accepts is the same value for every reader that follows RFC
// 8259. Texts are UTF-8 without halves of surrogate pairs, no object has a member twice, and
// numbers and nesting are limited. Names are compared exactly. encoding/json alone would ignore
// their case.
package strictjson
