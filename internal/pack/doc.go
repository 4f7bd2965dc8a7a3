// Package pack reads and checks PromptPack documents.
//
// [Load] converts the bytes of one pack (JSON or YAML) to a [Pack]. A Pack is typed and checked, and is
// identified by the SHA-256 of its RFC 8785 canonical JSON. Every error and warning is a [Diagnostic]
// with a stable code, a JSON pointer and a source position. By default a pack may use everything of the
// newest published version of the format, which includes all older versions. With [Options].Strict, one
// version applies exactly. A pack with features that this product does not support is loaded with a
// warning. [Pack.Supports] reports whether its runs may begin.
//
// [Pack.Compile] makes the control flow that the machine executes. [Pack.Analyze] reports whether this
// control flow always ends. [Pack.CheckVariables] resolves the variables of a run. [Pack.CheckPayload]
// checks a tool call.
//
// Package source reads documents, package diagram draws them, and this package checks them.
//
// A document may come from any author. No document makes this package panic, hang or use an excessive
// amount of memory (see [Limits]).
package pack
