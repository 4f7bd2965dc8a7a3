package endpoint

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Form is a wire format.
type Form string

const (
	// Chat is OpenAI's chat completions.
	Chat Form = "chat"
	// Messages is Anthropic's.
	Messages Form = "messages"
	// Responses is OpenAI's responses.
	Responses Form = "responses"
)

// paths end the URL of a request by form.
var paths = map[Form]string{Chat: "/chat/completions", Messages: "/v1/messages", Responses: "/responses"}

// Case is one conversation.
type Case struct {
	// Name is that of the file, without its ending.
	Name string `yaml:"-"`
	// Why says what a real endpoint does, and what every executor must do with it.
	Why string `yaml:"why"`
	// Form of the endpoint.
	Form Form `yaml:"form"`
	// Rules are the names of rules for what the endpoint may receive, see rules.go.
	Rules []string `yaml:"rules"`
	// Tools that the prompt has besides the usual ones.
	Tools []string `yaml:"tools"`
	// Engine is what differs from the usual engine.x_pawl of the pack.
	Engine map[string]any `yaml:"engine"`
	// Parameters of the prompt, and its tool_policy. Default: none.
	Parameters map[string]any `yaml:"parameters"`
	Policy     map[string]any `yaml:"policy"`
	// Rounds are the answers, in order; the last one is repeated.
	Rounds []*Round `yaml:"rounds"`
	Expect Expect   `yaml:"expect"`
}

// Expect is what must come of a case in every language.
type Expect struct {
	// Status of the run. Default: COMPLETED.
	Status string `yaml:"status"`
	// Text is the output of the last turn. Default: that of the round `said`; of a run that did
	// not complete none is expected.
	Text string `yaml:"text"`
	// Bill is the artifact that leave_state writes. Default: "ok", where the run completed.
	Bill string `yaml:"bill"`
	// Calls are those that reach a tool, each once; their order is not judged, as they may be
	// made at once. Default: those of all parts of rounds that are answers.
	Calls []Made `yaml:"calls"`
	// Requests that the endpoint got. Default: as many as there are rounds.
	Requests int `yaml:"requests"`
	// MostRequests bounds them instead, where a bound of the pack ends the run.
	MostRequests int `yaml:"most_requests"`
	// Endless means that the model calls a tool for ever, and a bound of the pack ends the run. Each answer has one call,
	// the first of Calls.
	Endless bool `yaml:"endless"`
	// Usage is the usage that the endpoint reports for all answers together. Default: 50 input and 5
	// output tokens for each round with an answer that reports usage.
	Usage *Usage `yaml:"usage"`
	// Estimated is how many attempts have a usage that was estimated, since the endpoint did not tell it.
	Estimated int `yaml:"estimated"`
	// Broken is how many calls are recorded with arguments that were broken.
	Broken int `yaml:"broken"`
	// Words must be in what is recorded of faults: the endpoint's own.
	Words []string `yaml:"words"`
	// Pauses are how many seconds at least are between a request, from 2, and the one before it.
	Pauses map[int]float64 `yaml:"pauses"`
}

// Made is a call of a tool with the arguments that the answer means.
type Made struct {
	Tool      string `yaml:"tool"`
	Arguments string `yaml:"arguments"`
}

// Usage in tokens.
type Usage struct {
	Input  int64 `yaml:"input"`
	Output int64 `yaml:"output"`
	Cached int64 `yaml:"cached"`
}

//go:embed cases/*.yaml
var files embed.FS

// Cases are all cases, by name.
func Cases() ([]*Case, error) {
	names, err := fs.Glob(files, "cases/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*Case
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := read(strings.TrimSuffix(path.Base(name), ".yaml"), text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func read(name string, text []byte) (*Case, error) {
	c := &Case{Name: name}
	if err := yaml.UnmarshalWithOptions(text, c, yaml.Strict()); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	for i, r := range c.Rounds {
		if err := r.fill(c.Form); err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	return c, c.Expect.fill(c)
}

func (c *Case) check() error {
	switch {
	case c.Why == "":
		return fmt.Errorf("why: says the rule behind the case")
	case paths[c.Form] == "":
		return fmt.Errorf("form: chat, messages or responses, not %q", c.Form)
	case len(c.Rounds) == 0:
		return fmt.Errorf("rounds: at least one")
	}
	for _, name := range c.Rules {
		if rules[name] == nil {
			return fmt.Errorf("rules: %s is none", name)
		}
	}
	return nil
}

const completed = "COMPLETED"

// fill gives an expectation what is usual.
func (e *Expect) fill(c *Case) error {
	if e.Status == "" {
		e.Status = completed
	}
	if e.Status == completed && e.Text == "" {
		e.Text = usualText
	}
	if e.Status == completed && e.Bill == "" {
		e.Bill = "ok"
	}
	if e.Requests == 0 && e.MostRequests == 0 {
		e.Requests = len(c.Rounds)
	}
	if e.Usage == nil {
		e.Usage = &Usage{}
		for _, r := range c.Rounds {
			if r.reportsUsage() {
				e.Usage.Input += usualRead
				e.Usage.Output += usualWritten
			}
		}
	}
	if e.Calls == nil {
		e.Calls = expectedCalls(c.Rounds)
	}
	if e.Endless && len(e.Calls) != 1 {
		return fmt.Errorf("expect.calls: with endless the one call that is repeated")
	}
	for i, m := range e.Calls {
		e.Calls[i].Arguments = expandLong(m.Arguments)
	}
	return nil
}

// expectedCalls are the calls of the answers, but for those that leave the state.
func expectedCalls(rounds []*Round) []Made {
	var all []Made
	for _, r := range rounds {
		for _, p := range r.called() {
			if !r.answers() || p.Call == "leave_state" {
				continue
			}
			made := Made{Tool: p.Call, Arguments: "{}"}
			if p.Arguments != nil && *p.Arguments != "" {
				made.Arguments = *p.Arguments
			}
			all = append(all, made)
		}
	}
	return all
}

var repeated = regexp.MustCompile(`<<(.)\*(\d+)>>`)

// expandLong makes the long text of every <<C*N>>.
func expandLong(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(found string) string {
		parts := repeated.FindStringSubmatch(found)
		n, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], n)
	})
}
