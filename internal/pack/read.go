package pack

import "bytes"

// read turns bytes into a tree: limits first, then the parser of the format. A
// nil tree means that the faults filed in found are all there is to say.
func read(src []byte, limits Limits, found *findings) *node {
	if f := scanBytes(src, limits); f != nil {
		return fail(found, f)
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	root, f := parse(src, limits, found)
	if f != nil {
		return fail(found, f)
	}
	if f := checkRoot(root); f != nil {
		return fail(found, f)
	}
	return root
}

func fail(found *findings, f *fault) *node {
	found.place(f.code, "", f.line, f.col, f.hint, "%s", f.msg)
	return nil
}

// parse picks the format: a document that begins with { or [ is JSON.
func parse(src []byte, limits Limits, found *findings) (*node, *fault) {
	s := scanner{src: src, limits: limits}
	if isJSON(src) {
		if f := s.scanJSON(); f != nil {
			return nil, f
		}
		return readJSON(src, found)
	}
	y := yamlScanner{scanner: s}
	if f := y.scanYAML(); f != nil {
		return nil, f
	}
	return readYAML(src, limits, found)
}

func isJSON(src []byte) bool {
	rest := bytes.TrimLeft(src, " \t\r\n")
	return len(rest) > 0 && (rest[0] == '{' || rest[0] == '[')
}

// checkRoot tells documents that are something else than a pack.
func checkRoot(root *node) *fault {
	at := func(code, msg, hint string) *fault {
		return &fault{code: code, line: root.line, col: root.col, msg: msg, hint: hint}
	}
	if root.kind == arrayNode {
		return at(ruleOneDoc, "the document is a list; a file holds exactly one pack, which is an object", "Put each pack into a file of its own.")
	}
	if root.kind != objectNode {
		return at(ruleRoot, "the document is not an object", "A pack is an object with id, name, version, template_engine and prompts.")
	}
	if root.get("apiVersion") != nil && root.get("kind") != nil {
		return at(ruleResource, "the document is an authoring resource (apiVersion and kind), not a pack",
			"Compile the resources to one pack (packc compile) and give that file.")
	}
	return nil
}
