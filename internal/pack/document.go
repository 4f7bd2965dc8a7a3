package pack

import "encoding/json"

// Document is a pack in the form in which it is written (PromptPack RFC 0001). Optional objects that
// are absent are nil. JSON values that may have any form are kept as raw JSON.
type Document struct {
	Schema         string                  `json:"$schema"`
	ID             string                  `json:"id"`
	Name           string                  `json:"name"`
	Version        string                  `json:"version"`
	Description    string                  `json:"description"`
	TemplateEngine TemplateEngine          `json:"template_engine"`
	Prompts        map[string]*Prompt      `json:"prompts"`
	Fragments      map[string]string       `json:"fragments"`
	Tools          map[string]*Tool        `json:"tools"`
	Metadata       json.RawMessage         `json:"metadata"`
	Compilation    *Compilation            `json:"compilation"`
	Evals          []Eval                  `json:"evals"`
	Workflow       *Workflow               `json:"workflow"`
	Agents         *Agents                 `json:"agents"`
	Skills         []SkillSource           `json:"skills"`
	Compositions   map[string]*Composition `json:"compositions"`
	Requires       *HostRequirements       `json:"requires"`
}

// HostRequirements are the requirements that a pack has for its host (PromptPack RFC 0012).
type HostRequirements struct {
	Providers []ProviderRequirement `json:"providers"`
}

// ProviderRequirement is a logical provider. Prompts refer to it by its key.
type ProviderRequirement struct {
	Key, Role string
	// Required means that the pack does not work without the provider.
	Required bool
	// Short means that the document contains only the key of the requirement.
	Short bool
}

// UnmarshalJSON accepts both forms of a requirement. If there is only a key, the provider is required
// and has the role llm.
func (r *ProviderRequirement) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		r.Role, r.Required, r.Short = roleLLM, true, true
		return json.Unmarshal(raw, &r.Key)
	}
	obj := struct {
		Key          string          `json:"key"`
		Role         string          `json:"role"`
		Required     *bool           `json:"required"`
		Description  string          `json:"description"`
		Capabilities json.RawMessage `json:"capabilities"`
	}{}
	if err := json.Unmarshal(raw, &obj); err != nil {
		return err
	}
	*r = ProviderRequirement{Key: obj.Key, Role: obj.Role, Required: obj.Required == nil || *obj.Required}
	return nil
}

// TemplateEngine says how templates are written (PromptPack RFC 0003).
type TemplateEngine struct {
	Version  string   `json:"version"`
	Syntax   string   `json:"syntax"`
	Features []string `json:"features"`
}

// Compilation is the origin of a pack.
type Compilation struct {
	CompiledWith string `json:"compiled_with"`
	CreatedAt    string `json:"created_at"`
	Schema       string `json:"schema"`
	Source       string `json:"source"`
}

// Prompt is one entry of prompts. Its key is the task type.
type Prompt struct {
	ID             string                   `json:"id"`
	Name           string                   `json:"name"`
	Description    string                   `json:"description"`
	Version        string                   `json:"version"`
	SystemTemplate string                   `json:"system_template"`
	Variables      []Variable               `json:"variables"`
	Tools          []string                 `json:"tools"`
	ToolPolicy     *ToolPolicy              `json:"tool_policy"`
	Pipeline       *Pipeline                `json:"pipeline"`
	Parameters     json.RawMessage          `json:"parameters"`
	Validators     []Validator              `json:"validators"`
	Evals          []Eval                   `json:"evals"`
	TestedModels   json.RawMessage          `json:"tested_models"`
	ModelOverrides map[string]ModelOverride `json:"model_overrides"`
	Media          json.RawMessage          `json:"media"`
	// Provider is the key of the requirement whose provider runs the prompt (PromptPack RFC 0017). ""
	// means the default provider.
	Provider string `json:"provider"`
}

// Variable declares a template variable (PromptPack RFC 0003).
type Variable struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default"`
	Description string          `json:"description"`
	Example     json.RawMessage `json:"example"`
	Validation  *Validation     `json:"validation"`
	Binding     json.RawMessage `json:"binding"`
}

// Validation restricts the values of a variable.
type Validation struct {
	Pattern   string            `json:"pattern"`
	MinLength *int64            `json:"min_length"`
	MaxLength *int64            `json:"max_length"`
	Minimum   *float64          `json:"minimum"`
	Maximum   *float64          `json:"maximum"`
	Enum      []json.RawMessage `json:"enum"`
}

// Tool describes a function that a model can call. The key of the tool in the pack identifies it, not its name.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	ActionScope *ActionScope    `json:"action_scope"`
}

// ActionScope declares the outside effects of a call (PromptPack RFC 0013).
type ActionScope struct {
	Effect        string          `json:"effect"`
	Reversibility string          `json:"reversibility"`
	DataClasses   []string        `json:"data_classes"`
	Extensions    json.RawMessage `json:"extensions"`
}

// ToolPolicy governs the tool calls of one prompt.
type ToolPolicy struct {
	// ToolChoice is auto (default), required or none.
	ToolChoice string `json:"tool_choice"`
	// MaxRounds bounds the number of rounds in a turn. nil means that only the executor bounds them (the sidecar: 100). The default 5 of
	// the format is not applied.
	MaxRounds *int64 `json:"max_rounds"`
	// MaxToolCallsPerTurn bounds the number of tool calls in a turn. nil means 10.
	MaxToolCallsPerTurn *int64 `json:"max_tool_calls_per_turn"`
	// Blocklist takes precedence over the prompt's tools.
	Blocklist []string `json:"blocklist"`
}

// Pipeline is passed to the executor.
type Pipeline struct {
	Stages     []string        `json:"stages"`
	Middleware json.RawMessage `json:"middleware"`
}

// Validator checks the answers of a model. The sidecar enforces the types that package assertion knows.
type Validator struct {
	// ID is the id to which obligations refer (PromptPack RFC 0016).
	ID      string `json:"id"`
	Type    string `json:"type"`
	Enabled *bool  `json:"enabled"`
	// FailOnViolation is deprecated and not used (PromptPack RFC 0015). nil means that it is absent.
	FailOnViolation *bool           `json:"fail_on_violation"`
	Message         string          `json:"message"`
	Params          json.RawMessage `json:"params"`
}

// ModelOverride changes a prompt for one model. The executor applies it.
type ModelOverride struct {
	Prefix     string          `json:"system_template_prefix"`
	Suffix     string          `json:"system_template_suffix"`
	Template   string          `json:"system_template"`
	Parameters json.RawMessage `json:"parameters"`
}

// Eval assesses outputs (PromptPack RFC 0006). The sidecar runs the types that package assertion knows.
type Eval struct {
	ID               string          `json:"id"`
	Description      string          `json:"description"`
	Type             string          `json:"type"`
	Trigger          string          `json:"trigger"`
	SamplePercentage *float64        `json:"sample_percentage"`
	Enabled          *bool           `json:"enabled"`
	Params           json.RawMessage `json:"params"`
	Metric           *Metric         `json:"metric"`
	Threshold        json.RawMessage `json:"threshold"`
	Message          string          `json:"message"`
	When             json.RawMessage `json:"when"`
	Groups           []string        `json:"groups"`
}

// Metric declares what an eval measures.
type Metric struct {
	Name  string       `json:"name"`
	Type  string       `json:"type"`
	Range *MetricRange `json:"range"`
}

// MetricRange bounds a metric; nil is open.
type MetricRange struct {
	Min *float64 `json:"min"`
	Max *float64 `json:"max"`
}

// SkillSource is a path, a package, or a skill that is written inline (PromptPack RFC 0008).
type SkillSource struct {
	// Path is set for "path" and {path, preload}.
	Path    string
	Preload bool
	// Name, Description and Instructions are set for inline skills.
	Name, Description, Instructions string
}

// UnmarshalJSON accepts both forms.
func (s *SkillSource) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &s.Path)
	}
	var obj struct {
		Path         string `json:"path"`
		Preload      bool   `json:"preload"`
		Name         string `json:"name"`
		Description  string `json:"description"`
		Instructions string `json:"instructions"`
	}
	if err := json.Unmarshal(raw, &obj); err != nil {
		return err
	}
	*s = SkillSource(obj)
	return nil
}

// Agents lists the prompts that can be called as agents (PromptPack RFC 0007 and RFC 0011).
type Agents struct {
	Entry   string               `json:"entry"`
	Members map[string]*AgentDef `json:"members"`
}

// AgentDef configures one member.
type AgentDef struct {
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	// InputModes and OutputModes are media types. nil means text/plain.
	InputModes  []string `json:"input_modes"`
	OutputModes []string `json:"output_modes"`
	// State is the state in which runs of the agent start. If it is "", the run executes the member's
	// prompt once.
	State string `json:"state"`
	// Governance replaces the governance of the pack field by field (PromptPack RFC 0013).
	Governance *Governance `json:"governance"`
}
