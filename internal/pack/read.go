package pack

import "github.com/pawl-dev/pawl/internal/pack/source"

// read parses a document. If it returns nil, found contains the faults.
func read(src []byte, limits Limits, found *findings) *source.Node {
	root, f := source.Read(src, limits, found.reportDuplicate)
	if f == nil {
		f = checkRoot(root)
	}
	if f != nil {
		found.addAt(f.Code, "", f.Line, f.Col, f.Hint, "%s", f.Msg)
		return nil
	}
	return root
}

// reportDuplicate reports a name that occurs more than once in an object. For the artifacts of a state, this is a
// rule of PromptPack RFC 0009.
func (f *findings) reportDuplicate(t source.DuplicateName) {
	code := source.CodeDuplicate
	if len(t.Path) == 5 && t.Path[0] == "workflow" && t.Path[1] == "states" && t.Path[3] == "artifacts" {
		code = "PP0009-3"
	}
	f.addAt(code, pointer(t.Path...), t.Line, t.Col, "Remove or rename one of them.",
		"the name %s is given twice in one object", quote(t.Path[len(t.Path)-1]))
}

// checkRoot returns a fault for documents that are clearly not packs.
func checkRoot(root *source.Node) *source.Fault {
	at := func(code, msg, hint string) *source.Fault {
		return &source.Fault{Code: code, Line: root.Line, Col: root.Col, Msg: msg, Hint: hint}
	}
	if root.Kind == source.Array {
		return at(source.CodeOneDoc, "the document is a list; a file holds exactly one pack, which is an object", "Put each pack into a file of its own.")
	}
	if root.Kind != source.Object {
		return at(source.CodeRoot, "the document is not an object", "A pack is an object with id, name, version, template_engine and prompts.")
	}
	if root.Get("apiVersion") != nil && root.Get("kind") != nil {
		return at(ruleResource, "the document is an authoring resource (apiVersion and kind), not a pack",
			"Compile the resources to one pack (packc compile) and give that file.")
	}
	return nil
}
