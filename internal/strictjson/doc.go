// Package strictjson is the one reader of JSON that decides something or that leaves the sidecar:
// two readers of one text must not see two values.
//
// Owns: what is well-formed JSON here, names of members, numbers.
// Keeps: a value that [Check] takes is the same value for every reader that follows RFC 8259. Texts
// are UTF-8 without halves of surrogate pairs, no object has a member twice, numbers and nesting
// are bounded. Names are compared exactly; encoding/json alone would ignore their case.
package strictjson
