package codegen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const pythonImports = `# ruff: noqa
# fmt: off
from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Final, Literal, NoReturn, Protocol, TypeAlias, overload

import pawl_client
from typing_extensions import NotRequired, TypedDict

`

// pythonTaken are names that the generated module or Python itself uses, so that types cannot have them.
var pythonTaken = strings.Fields(`Coroutine Mapping Any Final Literal NoReturn Protocol TypeAlias
	overload pawl_client NotRequired TypedDict PACK annotations str int float bool dict list bytes`)

// pythonModule is a Python module that is being written. The text in classes comes before the text in rest, which
// uses the classes.
type pythonModule struct {
	*module
	names   *namer
	classes strings.Builder
	rest    strings.Builder
	defs    map[*definition]string
}

// python writes a Python module. The module contains TypedDicts, literals, and the client's classes with these types as parameters.
func python(m *module) string {
	w := &pythonModule{module: m, names: newNamer(pythonTaken...), defs: map[*definition]string{}}
	for _, fixed := range []string{"Event", "Artifacts", "Variables", "Run", "AsyncRun", "Result", "Steps", "AsyncSteps", "Turn", "AsyncTurn", "Reply"} {
		w.names.taken[strings.ToLower(fixed)] = true
	}
	w.values()
	arguments := w.arguments()
	m.eachTurn(func(words []string, t *turn) { w.turn(words, t, arguments) })
	w.agents()
	return header("#", "python", m.pack) + pythonImports +
		"PACK: Final = " + pythonText(m.pack.ID) + "\n" + w.classes.String() + w.rest.String()
}

func pythonText(s string) string { return quote(s, `\U%08x`) }

// values writes the types that are the same for the whole pack.
func (w *pythonModule) values() {
	fmt.Fprintf(&w.classes, "\nEvent: TypeAlias = %s\n", pythonWordsOf(w.events))
	forms := map[machine.Form]*typ{machine.FormText: {kind: text}, machine.FormJSON: anyType, machine.FormBytes: {kind: octets}}
	values := &typ{kind: object, fields: map[string]*field{}}
	for _, a := range w.artifacts {
		values.fields[a.name] = &field{about: a.about, typ: forms[a.form]}
	}
	w.dict("Artifacts", values, nil)
	if w.variables == nil {
		w.classes.WriteString("\nVariables: TypeAlias = Mapping[str, Any]\n")
	} else {
		w.dict("Variables", w.variables, []string{"variables"})
	}
	w.rest.WriteString("\nRun: TypeAlias = pawl_client.Run[Event, Artifacts, Variables]\n" +
		"AsyncRun: TypeAlias = pawl_client.AsyncRun[Event, Artifacts, Variables]\n" +
		"Result: TypeAlias = pawl_client.RunResult[Artifacts]\n")
}

// pythonWordsOf returns the literal type of a list of words. Without words it is the type of the empty text, because a
// Literal needs a value.
func pythonWordsOf(words []string) string {
	if len(words) == 0 {
		return `Literal[""]`
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = pythonText(word)
	}
	return "Literal[" + strings.Join(quoted, ", ") + "]"
}

// arguments writes the type of each tool's arguments and returns the names of these types.
func (w *pythonModule) arguments() map[string]string {
	out := map[string]string{}
	for i := range w.tools {
		t := &w.tools[i]
		for _, def := range t.defs {
			w.defs[def] = w.names.name(append([]string{t.name, "Arguments"}, def.path...)...)
		}
		for _, def := range t.defs {
			w.definition(def)
		}
		out[t.name] = w.argument(t)
	}
	return out
}

// argument returns the Python type of the arguments of one tool. If the arguments may have any names, the type is a
// Mapping, so that the caller need not pass a dict.
func (w *pythonModule) argument(t *tool) string {
	if t.arguments == nil {
		return "Mapping[str, Any]"
	}
	name := w.names.name(t.name, "Arguments")
	if isClosed(t.arguments) {
		w.dict(name, t.arguments, []string{t.name, "Arguments"})
		return name
	}
	shown := w.show(t.arguments, []string{t.name, "Arguments"})
	if shown == "dict[str, Any]" || shown == "Any" {
		shown = "Mapping[str, Any]"
	}
	fmt.Fprintf(&w.classes, "\n%s: TypeAlias = %s\n", name, pythonText(shown))
	return name
}

func (w *pythonModule) definition(def *definition) {
	if isClosed(def.typ) {
		w.dict(w.defs[def], def.typ, []string{w.defs[def]})
		return
	}
	shown := w.show(def.typ, []string{w.defs[def]})
	fmt.Fprintf(&w.classes, "\n%s: TypeAlias = %s\n", w.defs[def], pythonText(shown))
}

// isClosed reports whether a type is written as a TypedDict.
func isClosed(t *typ) bool { return t.kind == object && !t.open }

// dict writes a TypedDict.
func (w *pythonModule) dict(name string, t *typ, path []string) {
	names := slices.Sorted(maps.Keys(t.fields))
	shown := make([]string, len(names))
	for i, key := range names {
		shown[i] = w.show(t.fields[key].typ, append(slices.Clone(path), key))
		if t.isOptional(key) {
			shown[i] = "NotRequired[" + shown[i] + "]"
		}
	}
	var b strings.Builder
	if slices.ContainsFunc(names, func(key string) bool { return !isPythonField(key) }) {
		fmt.Fprintf(&b, "\n%s = TypedDict(%s, {\n", name, pythonText(name))
		for i, key := range names {
			fmt.Fprintf(&b, "    %s: %s,%s\n", pythonText(key), pythonText(shown[i]), about("  # ", t.fields[key]))
		}
		b.WriteString("})\n")
	} else {
		fmt.Fprintf(&b, "\nclass %s(TypedDict):\n", name)
		for i, key := range names {
			fmt.Fprintf(&b, "    %s: %s%s\n", key, shown[i], about("  # ", t.fields[key]))
		}
		if len(names) == 0 {
			b.WriteString("    pass\n")
		}
	}
	w.classes.WriteString(b.String())
}

// about returns the pack's description of a field as a comment after mark. It returns "" if there is none.
func about(mark string, f *field) string {
	if text := remark(f.about); text != "" {
		return mark + text
	}
	return ""
}

// show returns the Python text of a type. An object that is not open gets a name that is made from its path.
func (w *pythonModule) show(t *typ, path []string) string {
	switch t.kind {
	case null:
		return "None"
	case boolean:
		return "bool"
	case integer:
		return "int"
	case number:
		return "float"
	case text:
		return "str"
	case octets:
		return "bytes"
	case literal:
		return "Literal[" + pythonValue(t.value) + "]"
	case list:
		return "list[" + w.show(t.elem, path) + "]"
	case dict:
		return "dict[str, " + w.show(t.elem, path) + "]"
	case named:
		return w.defs[t.def]
	case union:
		return w.union(t, path)
	case object:
		if t.open {
			return "dict[str, Any]"
		}
		name := w.names.name(path...)
		w.dict(name, t, path)
		return name
	}
	return "Any"
}

// union returns the Python type of a union. Its literal values are together in one Literal.
func (w *pythonModule) union(t *typ, path []string) string {
	var values, others []string
	path = append(slices.Clone(path), "choice")
	for _, member := range t.of {
		if member.kind == literal {
			values = append(values, pythonValue(member.value))
		} else if shown := w.show(member, path); !slices.Contains(others, shown) {
			others = append(others, shown)
		}
	}
	if len(values) > 0 {
		others = append([]string{"Literal[" + strings.Join(values, ", ") + "]"}, others...)
	}
	return strings.Join(others, " | ")
}

func pythonValue(value any) string {
	switch v := value.(type) {
	case string:
		return pythonText(v)
	case bool:
		return pascal(fmt.Sprint(v))
	}
	return fmt.Sprint(value)
}

// turn writes the types of the turns of a prompt, for both kinds of handlers.
func (w *pythonModule) turn(words []string, t *turn, arguments map[string]string) {
	name := func(suffix string) string {
		if words == nil {
			return suffix
		}
		if rest, async := strings.CutPrefix(suffix, "Async"); async {
			return w.names.name("Async", words[0], rest)
		}
		return w.names.name(words[0], suffix)
	}
	events, variables := "Event", name("TurnVariables")
	if words != nil {
		events = name("Event")
		fmt.Fprintf(&w.classes, "\n%s: TypeAlias = %s\n", events, pythonWordsOf(t.events))
	}
	w.dict(variables, t.variables, nil)
	steps, asyncSteps := name("Steps"), name("AsyncSteps")
	w.steps(steps, t.tools, arguments, "%s")
	w.steps(asyncSteps, t.tools, arguments, "Coroutine[Any, Any, %s]")
	fmt.Fprintf(&w.rest, "\n%s: TypeAlias = pawl_client.Turn[%s, Artifacts, %s]\n", name("Turn"), steps, variables)
	fmt.Fprintf(&w.rest, "%s: TypeAlias = pawl_client.AsyncTurn[%s, Artifacts, %s]\n", name("AsyncTurn"), asyncSteps, variables)
	fmt.Fprintf(&w.rest, "%s: TypeAlias = pawl_client.Reply[%s, Artifacts]\n", name("Reply"), events)
}

// steps writes the types of the method `turn.step`.
func (w *pythonModule) steps(name string, tools []string, arguments map[string]string, result string) {
	fmt.Fprintf(&w.classes, "\nclass %s(Protocol):\n", name)
	if len(tools) == 0 {
		w.classes.WriteString("    def __call__(self, tool: NoReturn) -> " + fmt.Sprintf(result, "Any") + ": ...\n")
		return
	}
	for _, key := range tools {
		payload, given := arguments[key], "Any"
		if t := w.toolNamed(key); t.mayBeLeftOut() {
			payload += " | None = None"
		}
		if w.toolNamed(key).agent {
			given = "pawl_client.AgentResult"
		}
		if len(tools) > 1 {
			w.classes.WriteString("    @overload\n")
		}
		fmt.Fprintf(&w.classes, "    def __call__(\n        self, tool: Literal[%s], payload: %s, *,\n        key: str = \"\", reframe: bool = False, timeout: float | None = None,\n    ) -> %s: ...\n",
			pythonText(key), payload, fmt.Sprintf(result, given))
	}
}

// agents writes the types with which runs of agents are started.
func (w *pythonModule) agents() {
	for _, a := range w.module.agents {
		variables := w.names.name(a.name, "AgentVariables")
		w.dict(variables, a.variables, []string{variables})
		fmt.Fprintf(&w.rest, "\n%s: TypeAlias = pawl_client.Run[Event, Artifacts, %s]\n", w.names.name(a.name, "AgentRun"), variables)
		fmt.Fprintf(&w.rest, "%s: TypeAlias = pawl_client.AsyncRun[Event, Artifacts, %s]\n", w.names.name("Async", a.name, "AgentRun"), variables)
	}
}
