// Package pack reads and checks PromptPack documents.
//
// [Load] turns the bytes of one pack (JSON or YAML) into a [Pack]: typed, checked, addressed by the SHA-256
// of its RFC 8785 canonical JSON. Every error and warning is a [Diagnostic] with a stable code, a JSON
// pointer and a source position. By default a pack may use everything of the newest published version of the
// format, and so of each older one; [Options].Strict applies one version exactly. A pack with features that
// this product does not have is loaded with a warning; [Pack.Supports] reports whether its runs may begin.
//
// From a pack, [Pack.Compile] makes the control flow that the machine executes, [Pack.Analyze] reports
// whether that control flow ends, [Pack.CheckVariables] resolves the variables of a run and
// [Pack.CheckPayload] checks a tool call.
//
// Package source reads documents, package diagram draws them; this package checks them.
//
// Input is foreign: no document makes this package panic, hang or use memory out of proportion (see
// [Limits]).
package pack
