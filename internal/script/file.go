package script

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// maxBytes bounds an answers file.
const maxBytes = 4 << 20

// maxRepeat bounds how often an item is played.
const maxRepeat = 1_000_000

// File is one scripted run.
type File struct {
	// Variables are the run's variables; keys are names, values as JSON.
	Variables map[string]any `yaml:"variables"`
	// Input is the first message of the entry visit: a text, or any other value as
	// JSON; absent = none.
	Input any `yaml:"input"`
	// Entry is a state, "agent:<member>", or "" for the pack's own entry. If the pack has no state of that
	// name, a bare member key is accepted, too.
	Entry string `yaml:"entry"`
	// Turns are played in order.
	Turns []Answer `yaml:"turns"`
}

// Answer is one item of a script. If one of External, Input, After and Cancel is set, the item does this. Otherwise
// it answers the open turn with the other fields.
type Answer struct {
	// State is the state in which the run must be. If it is "", the state is not checked.
	State string `yaml:"state"`
	// Repeat is how often the item is executed; 0 = once.
	Repeat int `yaml:"repeat"`

	// Steps are requested and resolved one after another before the turn ends.
	Steps []Step `yaml:"steps"`
	// Artifacts are written with the event or the end of the turn.
	Artifacts map[string]any `yaml:"artifacts"`
	// Event is the event that the turn emits. If it is "", the turn completes without an event.
	Event string `yaml:"event"`
	// Output is the turn's text, or any other value as JSON; absent = none.
	Output any `yaml:"output"`
	// Usage is the usage that is reported for the turn.
	Usage *Usage `yaml:"usage"`
	// Fail fails the turn instead.
	Fail *Fail `yaml:"fail"`

	// External is an event emitted from outside the turn.
	External string `yaml:"external"`
	// Input is a message that is sent to the run for the next turn in its current state; absent = none.
	Input any `yaml:"input"`
	// After is the time that the script skips, so that timers and deadlines become due.
	After time.Duration `yaml:"after"`
	// Cancel is the reason with which the run is cancelled; "" = the run is not cancelled.
	Cancel string `yaml:"cancel"`
}

// Step is one tool call with its answer.
type Step struct {
	Tool string `yaml:"tool"`
	// Key distinguishes the step from others in the same visit of a state; "" = the number of the call.
	Key string `yaml:"key"`
	// Payload is the tool's argument; absent = {}.
	Payload any `yaml:"payload"`
	// Status is ok or error; default ok.
	Status string `yaml:"status"`
	// Result is the answer of the step as JSON. For a failed step it is the error message, or an object
	// with code and message.
	Result any `yaml:"result"`
	// Reframe counts one against max_reframes.
	Reframe bool `yaml:"reframe"`
	// Repeat makes the call that many times; 0 = once.
	Repeat int `yaml:"repeat"`
}

// Usage is consumption outside the sidecar.
type Usage struct {
	InputTokens  int64   `yaml:"input_tokens"`
	OutputTokens int64   `yaml:"output_tokens"`
	CostUSD      float64 `yaml:"cost_usd"`
	ToolCalls    int32   `yaml:"tool_calls"`
	// CachedTokens are the part of InputTokens that came from a cache. ReasoningTokens are a part of OutputTokens.
	CachedTokens    int64 `yaml:"cached_tokens"`
	ReasoningTokens int64 `yaml:"reasoning_tokens"`
	// Model is the model that consumed the tokens; the pack or the operator has its price.
	Model string `yaml:"model"`
}

// Fail is a failed execution of a turn. A plain text in the script is the message of a failure that is
// not retryable.
type Fail struct {
	Code      string `yaml:"code"`
	Message   string `yaml:"message"`
	Retryable bool   `yaml:"retryable"`
}

// UnmarshalYAML accepts a text or {code, message, retryable}.
func (f *Fail) UnmarshalYAML(decode func(any) error) error {
	var text string
	if decode(&text) == nil {
		*f = Fail{Message: text}
		return nil
	}
	type plain Fail
	return decode((*plain)(f))
}

// Load reads and checks a script file; "-" is standard input. An [*Error] has all faults of the
// content.
func Load(path string) (*File, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("answers: %w", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("answers %s: %w", path, err)
	}
	return Parse(raw)
}

// Error is the list of a script's faults.
type Error struct{ Faults []string }

// Error returns one line per fault.
func (e *Error) Error() string { return "answers: " + strings.Join(e.Faults, "\n  ") }

// Parse reads a script. Unknown keys and fields that exclude each other are faults. An [*Error] has all
// faults, or only the first one if the text cannot be decoded.
func Parse(raw []byte) (*File, error) {
	if len(raw) > maxBytes {
		return nil, &Error{[]string{fmt.Sprintf("more than %d bytes", maxBytes)}}
	}
	// The text is checked first, because the decoder expands aliases without a bound.
	limits := source.Limits{Bytes: maxBytes, Depth: 64, Scalar: maxBytes, Nodes: 200_000}
	if f := source.BoundYAML(raw, limits); f != nil {
		return nil, &Error{[]string{f.Error()}}
	}
	var f File
	err := yaml.NewDecoder(strings.NewReader(string(raw)), yaml.DisallowUnknownField()).Decode(&f)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{[]string{strings.TrimSpace(yaml.FormatError(err, false, true))}}
	}
	if faults := f.faults(); len(faults) > 0 {
		return nil, &Error{faults}
	}
	return &f, nil
}

func (f *File) faults() (faults []string) {
	for i := range f.Turns {
		for _, fault := range f.Turns[i].faults() {
			faults = append(faults, fmt.Sprintf("turns[%d]: %s", i, fault))
		}
	}
	return faults
}

// faults returns what is wrong with one answer of a script, without its position in the file.
func (a *Answer) faults() (faults []string) {
	kinds := a.kinds()
	if len(kinds) > 1 {
		faults = append(faults, strings.Join(kinds, " and ")+" exclude each other")
	}
	if len(kinds) == 1 && kinds[0] != "external" && !a.isTurn() && len(a.Artifacts) > 0 {
		faults = append(faults, "artifacts are written by a turn or by external, not by "+kinds[0])
	}
	if a.Fail != nil && (a.Event != "" || a.Output != nil || len(a.Artifacts) > 0) {
		faults = append(faults, "a turn that fails has no event, output or artifacts")
	}
	if a.Repeat < 0 || a.Repeat > maxRepeat {
		faults = append(faults, fmt.Sprintf("repeat: %d is none of 0 to %d", a.Repeat, maxRepeat))
	}
	if a.After < 0 {
		faults = append(faults, fmt.Sprintf("after: %s is negative", a.After))
	}
	for i, s := range a.Steps {
		if s.Tool == "" {
			faults = append(faults, fmt.Sprintf("steps[%d].tool is required", i))
		}
		if s.Repeat < 0 || s.Repeat > maxRepeat {
			faults = append(faults, fmt.Sprintf("steps[%d].repeat: %d is none of 0 to %d", i, s.Repeat, maxRepeat))
		}
		if !slices.Contains([]string{"", "ok", "error"}, s.Status) {
			faults = append(faults, fmt.Sprintf("steps[%d].status %q is none of ok, error", i, s.Status))
		}
	}
	return faults
}

// kinds returns those fields of the item that are set and determine what it does. It also returns "turn" if fields of
// an answered turn are set.
func (a *Answer) kinds() (kinds []string) {
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"external", a.External != ""}, {"input", a.Input != nil},
		{"after", a.After != 0}, {"cancel", a.Cancel != ""},
		{"turn (steps, event, output, usage, fail)", a.isTurn()},
	} {
		if k.set {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

func (a *Answer) isTurn() bool {
	return len(a.Steps) > 0 || a.Event != "" || a.Output != nil || a.Usage != nil || a.Fail != nil
}
