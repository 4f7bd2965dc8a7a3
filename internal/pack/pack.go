package pack

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// Options are the options of [Load]. The zero value is lenient and has default limits.
type Options struct {
	// Strict is a published version of the format, one of [PublishedSchemas]. This version then applies
	// exactly. If Strict is empty, Load accepts the newest version. It also accepts some packs that no
	// version allows, with a warning.
	Strict string
	// RequireBounded makes it an error if the bounds in the pack (for example max_visits) do not end all runs of an
	// entry, see [Termination].
	RequireBounded bool
	// Accepted means that this program, or an earlier version of it, has already accepted the document.
	// Newer rules then only cause warnings.
	Accepted bool
	// Providers are the provider keys to which the operator has bound a model. Keys of the pack that are
	// not among them cause warnings.
	Providers []string
	// Limits are the limits of the document. Zero fields have their default.
	Limits Limits
}

// Pack is a checked pack. Immutable; safe for concurrent use.
type Pack struct {
	// ID and Version are the name of the pack. An ID@Version always has the same digest.
	ID, Version string
	// Digest identifies the content. It consists of "sha256:" and 64 hex digits, the hash of Canonical.
	Digest string
	// Canonical is the document as RFC 8785 canonical JSON.
	Canonical []byte
	// Source is the document as it was given.
	Source []byte
	// Doc is the document's content. Read-only.
	Doc *Document
	// Warnings are the findings that are not errors, in source order.
	Warnings []Diagnostic

	// uses are the resolved templates of the prompts, including model overrides.
	uses map[string]*templateUse
	// slots are the declared artifacts.
	slots map[string]bool
	// schemas are the compiled parameters of the tools that declare any.
	schemas map[string]*schema
	// requirements are the provider requirements by key.
	requirements map[string]*ProviderRequirement
	// validators are the enabled validators of each prompt that the sidecar enforces. unenforced are those that it cannot enforce.
	validators map[string][]EnforcedValidator
	unenforced map[string][]unenforced
	// turnEvals are the evals that judge turns and visits, by the prompt that declares them. "" is the pack itself. endEvals judge the end
	// of a run.
	turnEvals map[string][]ScoredEval
	endEvals  []ScoredEval
}

// Load reads and checks one pack. It returns the diagnostics in source order. If one of them is an error, the pack is nil. Load returns an
// error only for a mistake of the caller (an unknown Options.Strict, a negative limit), or for a bug of this package, never because of the
// document.
func Load(src []byte, opts Options) (*Pack, []Diagnostic, error) {
	limits, err := opts.Limits.WithDefaults()
	if err != nil {
		return nil, nil, err
	}
	if opts.Strict != "" {
		if _, err := publishedSchema(opts.Strict); err != nil {
			return nil, nil, err
		}
	}
	found := newFindings()
	root := read(src, limits, found)
	if root == nil {
		return nil, found.inSourceOrder(), nil
	}
	found.root, found.accepted = root, opts.Accepted
	p, err := build(root, opts, found)
	if err != nil {
		return nil, nil, err
	}
	if found.errors > 0 || p == nil {
		return nil, found.inSourceOrder(), nil
	}
	p.Source = slices.Clone(src)
	p.Warnings = found.inSourceOrder()
	return p, slices.Clone(p.Warnings), nil
}

// build applies the schemas and the rules to a tree.
func build(root *source.Node, opts Options, found *findings) (*Pack, error) {
	value := root.Plain()
	if err := checkSchema(value, opts.Strict, found); err != nil {
		return nil, err
	}
	form, err := canonical(value)
	if err != nil {
		return nil, err
	}
	doc := new(Document)
	if err := json.Unmarshal(form, doc); err != nil {
		if found.errors == 0 {
			return nil, fmt.Errorf("pack: a document that passed the schema does not fit the types: %w", err)
		}
		// The schema has already reported the value with the wrong type.
		return nil, nil
	}
	doc.fillNullEntries()
	p := &Pack{ID: doc.ID, Version: doc.Version, Digest: digestOf(form), Canonical: form, Doc: doc}
	p.check(found, &opts)
	return p, nil
}
