// Package prompt renders the templates of a pack (PromptPack RFC 0003).
//
// A placeholder is two braces around a path, "{{name}}", with spaces and tabs allowed inside. A path is an
// identifier followed by ".identifier" and "[n]" parts. Two namespaces are reserved: "{{artifacts.NAME}}" and
// "{{fragments.NAME}}"; everything else is a variable. Any other braces are literal text.
//
// Rendering is one pass: a value is inserted verbatim and is never searched for placeholders, so a value
// cannot read another one. Only fragments, which are the pack author's own text, are templates themselves.
// The package is pure.
package prompt
