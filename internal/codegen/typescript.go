package codegen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// exact is the largest integer up to which a JavaScript number represents all integers exactly.
const exact = 1<<53 - 1

// typescriptTaken are names that the generated module or TypeScript itself uses, so that types cannot have them.
var typescriptTaken = strings.Fields("Json PackName AgentResult Pick Uint8Array Array Promise Record string number boolean")

// typescriptModule is a TypeScript module that is being written.
type typescriptModule struct {
	*module
	names *namer
	// pack is the name of the interface with all types.
	pack  string
	types strings.Builder
	defs  map[*definition]string
}

// typescript writes a TypeScript module. The module contains one interface with all types of the pack, and a constant with the name of
// the pack. The type of the constant contains the interface.
func typescript(m *module) string {
	w := &typescriptModule{module: m, names: newNamer(typescriptTaken...), defs: map[*definition]string{}}
	w.pack = w.names.name(m.pack.ID, "Pack")
	arguments := w.arguments()
	var b strings.Builder
	b.WriteString(header("//", "typescript", m.pack))
	b.WriteString("/* eslint-disable */\n// biome-ignore-all lint: generated\n// biome-ignore-all format: generated\n// biome-ignore-all assist: generated\n")
	b.WriteString("import type { AgentResult, Json, PackName } from \"pawl-client\";\n\n")
	value := strings.ToLower(w.pack[:1]) + w.pack[1:]
	b.WriteString("/** Name of the pack, which carries its types. */\n")
	fmt.Fprintf(&b, "export const %s: PackName<%s> = %s;\n\n", value, w.pack, typescriptText(m.pack.ID))
	b.WriteString("/** Types of the pack. */\n")
	fmt.Fprintf(&b, "export interface %s {\n", w.pack)
	fmt.Fprintf(&b, "  readonly events: %s;\n", typescriptWordsOf(m.events))
	fmt.Fprintf(&b, "  readonly artifacts: %s;\n", w.values())
	if m.variables == nil {
		b.WriteString("  readonly variables: { readonly [name: string]: Json };\n")
	} else {
		fmt.Fprintf(&b, "  readonly variables: %s;\n", w.show(m.variables, "  "))
	}
	w.entries(&b)
	w.tools(&b, arguments)
	w.turns(&b)
	// The module exports these names, because a linter reports unused names and some packs do not use them.
	b.WriteString("}\n" + w.types.String() + "\nexport type { AgentResult, Json };\n")
	return b.String()
}

func typescriptText(s string) string { return quote(s, `\u{%x}`) }

func typescriptWordsOf(words []string) string {
	if len(words) == 0 {
		return "never"
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = typescriptText(word)
	}
	return strings.Join(quoted, " | ")
}

// property returns a name as it is written before the colon of a property, in quotes if necessary.
func property(name string) string {
	if isPlain(name) {
		return name
	}
	return typescriptText(name)
}

func (w *typescriptModule) values() string {
	if len(w.artifacts) == 0 {
		return "{ readonly [name: string]: never }"
	}
	var b strings.Builder
	forms := map[machine.Form]string{machine.FormText: "string", machine.FormJSON: "Json", machine.FormBytes: "Uint8Array"}
	b.WriteString("{\n")
	for _, a := range w.artifacts {
		b.WriteString(comment("    ", a.about))
		fmt.Fprintf(&b, "    readonly %s: %s;\n", property(a.name), forms[a.form])
	}
	return b.String() + "  }"
}

// comment returns the pack's description as a comment above a declaration.
func comment(indent, text string) string {
	if text = remark(text); text == "" {
		return ""
	}
	return indent + "/** " + text + " */\n"
}

func (w *typescriptModule) entries(b *strings.Builder) {
	b.WriteString("  readonly agents: {\n")
	for _, a := range w.agents {
		fmt.Fprintf(b, "    readonly %s: %s;\n", property(a.name), w.show(a.variables, "    "))
	}
	b.WriteString("  };\n")
}

// arguments writes the type of each tool's arguments and returns the names of these types.
func (w *typescriptModule) arguments() []string {
	out := make([]string, len(w.module.tools))
	for i := range w.module.tools {
		t := &w.module.tools[i]
		for _, def := range t.defs {
			w.defs[def] = w.names.name(append([]string{t.name, "Arguments"}, def.path...)...)
		}
		for _, def := range t.defs {
			fmt.Fprintf(&w.types, "\nexport type %s = %s;\n", w.defs[def], w.show(def.typ, ""))
		}
		if t.arguments == nil {
			out[i] = "{ readonly [name: string]: Json }"
			continue
		}
		out[i] = w.names.name(t.name, "Arguments")
		shown := w.show(t.arguments, "")
		if shown == "Json" {
			shown = "{ readonly [name: string]: Json }"
		}
		fmt.Fprintf(&w.types, "\nexport type %s = %s;\n", out[i], shown)
	}
	return out
}

func (w *typescriptModule) tools(b *strings.Builder, arguments []string) {
	b.WriteString("  readonly tools: {\n")
	for i, t := range w.module.tools {
		result := "Json"
		if t.agent {
			result = "AgentResult"
		}
		fmt.Fprintf(b, "    readonly %s: { readonly arguments: %s; readonly result: %s };\n", property(t.name), arguments[i], result)
	}
	b.WriteString("  };\n")
}

// turns writes the types of the turns: that of any prompt, and one for each prompt.
func (w *typescriptModule) turns(b *strings.Builder) {
	one := func(indent string, t *turn) {
		fmt.Fprintf(b, "%s  readonly events: %s;\n", indent, typescriptWordsOf(t.events))
		fmt.Fprintf(b, "%s  readonly artifacts: %s[\"artifacts\"];\n", indent, w.pack)
		fmt.Fprintf(b, "%s  readonly variables: %s;\n", indent, w.show(t.variables, indent+"  "))
		fmt.Fprintf(b, "%s  readonly tools: Pick<%s[\"tools\"], %s>;\n", indent, w.pack, typescriptWordsOf(t.tools))
	}
	b.WriteString("  readonly turns: {\n")
	one("  ", &w.all)
	b.WriteString("  };\n  readonly prompts: {\n")
	for i := range w.prompts {
		fmt.Fprintf(b, "    readonly %s: {\n", property(w.prompts[i].prompt))
		one("    ", &w.prompts[i])
		b.WriteString("    };\n")
	}
	b.WriteString("  };\n")
}

// show returns the text of a type.
func (w *typescriptModule) show(t *typ, indent string) string {
	switch t.kind {
	case null:
		return "null"
	case boolean:
		return "boolean"
	case integer, number:
		return "number"
	case text:
		return "string"
	case literal:
		return typescriptValue(t.value)
	case list:
		return "readonly (" + w.show(t.elem, indent) + ")[]"
	case dict:
		return "{ readonly [name: string]: " + w.show(t.elem, indent) + " }"
	case named:
		return w.defs[t.def]
	case union:
		var out []string
		for _, member := range t.of {
			shown := w.show(member, indent)
			if member.kind == list {
				shown = "(" + shown + ")"
			}
			if !slices.Contains(out, shown) {
				out = append(out, shown)
			}
		}
		return strings.Join(out, " | ")
	case object:
		return w.object(t, indent)
	}
	return "Json"
}

// object returns the TypeScript type of an object. indent is the indentation of its first line.
func (w *typescriptModule) object(t *typ, indent string) string {
	if len(t.fields) == 0 && !t.open {
		return "{ readonly [name: string]: never }"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(t.fields)) {
		f, mark := t.fields[name], ""
		if t.isOptional(name) {
			mark = "?"
		}
		b.WriteString(comment(indent+"  ", f.about))
		fmt.Fprintf(&b, "%s  readonly %s%s: %s;\n", indent, property(name), mark, w.show(f.typ, indent+"  "))
	}
	if t.open {
		fmt.Fprintf(&b, "%s  readonly [name: string]: unknown;\n", indent)
	}
	return b.String() + indent + "}"
}

func typescriptValue(value any) string {
	switch v := value.(type) {
	case string:
		return typescriptText(v)
	case int64:
		if v > exact || v < -exact {
			return "number"
		}
	}
	return fmt.Sprint(value)
}
