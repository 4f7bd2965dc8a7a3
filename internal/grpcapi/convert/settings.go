package convert

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/pack"
)

// executorKeys are the keys of a prompt that the engine ignores and the executor uses.
var executorKeys = []string{
	"parameters", "model_overrides", "validators", "tool_policy", "media", "pipeline", "tested_models", "provider",
}

// maxSettings limits the cache of turns' settings.
const maxSettings = 1024

// SettingsCache caches the settings of turns. Settings are the parts of a pack that the executor uses,
// in the JSON of the pack. They depend only on the pack.
type SettingsCache struct {
	mu    sync.Mutex
	known *cache.LRU[settingsKey, string]
}

type settingsKey struct{ digest, prompt, state string }

// NewSettingsCache returns an empty cache.
func NewSettingsCache() *SettingsCache {
	return &SettingsCache{known: cache.New[settingsKey, string](maxSettings)}
}

// SettingsJSON returns the settings for a prompt and a state as one compact JSON object.
func (c *SettingsCache) SettingsJSON(p *pack.Pack, prompt, state string) string {
	key := settingsKey{p.Digest, prompt, state}
	c.mu.Lock()
	text, ok := c.known.Get(key)
	c.mu.Unlock()
	if ok {
		return text
	}
	text = settingsOf(p, prompt, state)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Put(key, text, 1)
	return text
}

// rawPack contains the parts of a pack's JSON that the executor gets unchanged.
type rawPack struct {
	Prompts map[string]map[string]json.RawMessage `json:"prompts"`
	Evals   []json.RawMessage                     `json:"evals"`
	Skills  []json.RawMessage                     `json:"skills"`
}

// settingsOf returns the JSON object with the settings of the pack that the executor of a turn needs: those of the
// prompt, and the evals and skills that apply in the state.
func settingsOf(p *pack.Pack, prompt, state string) string {
	var doc rawPack
	// The canonical form was decoded before, so decoding cannot fail here.
	if json.Unmarshal(p.Canonical, &doc) != nil {
		return "{}"
	}
	settings := map[string]any{}
	own := doc.Prompts[prompt]
	for _, key := range executorKeys {
		if value, ok := own[key]; ok {
			settings[key] = value
		}
	}
	if evals := mergeEvals(doc.Evals, own["evals"]); len(evals) > 0 {
		settings["evals"] = evals
	}
	filter := SkillFilter(p, state)
	if skills := FilterSkills(doc.Skills, filter); len(skills) > 0 {
		settings["skills"] = skills
	}
	if filter != "" {
		settings["skills_filter"] = filter
	}
	if mode := orchestration(p, state); mode != "" {
		settings["orchestration"] = mode
	}
	if model := p.XPawl().ModelOf(prompt); model != "" {
		settings["model"] = model
	}
	if schema, ok := p.XPawl().OutputSchema[prompt]; ok {
		settings["output_schema"] = schema
	}
	if slices.Contains(p.XPawl().Chat, state) {
		settings["chat"] = true
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// orchestration returns the field orchestration of a state in the pack: who chooses the next event. It returns "" if
// the field is not set.
func orchestration(p *pack.Pack, state string) string {
	if p.Doc.Workflow == nil || p.Doc.Workflow.States[state] == nil {
		return ""
	}
	return p.Doc.Workflow.States[state].Orchestration
}

// mergeEvals joins the evals of the pack and of the prompt. If both have an eval with the same id, the
// result contains the eval of the prompt (PromptPack RFC 0006).
func mergeEvals(packs []json.RawMessage, prompts json.RawMessage) []json.RawMessage {
	var own []json.RawMessage
	if len(prompts) > 0 && json.Unmarshal(prompts, &own) != nil {
		return packs
	}
	replaced := map[string]bool{}
	for _, eval := range own {
		replaced[evalID(eval)] = true
	}
	var merged []json.RawMessage
	for _, eval := range packs {
		if !replaced[evalID(eval)] {
			merged = append(merged, eval)
		}
	}
	return append(merged, own...)
}

func evalID(raw json.RawMessage) string {
	var eval struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &eval)
	return eval.ID
}

// noSkills is the filter of a state without skills.
const noSkills = "none"

// FilterSkills returns the skill sources of a pack that a state's filter selects: those at the filter's path, below
// it and above it, and the inline skill with the filter's name (PromptPack RFC 0008). From a source above the path,
// the executor must use only the skills that the filter names. For this purpose the executor also gets the filter, as
// skills_filter.
func FilterSkills(sources []json.RawMessage, filter string) []json.RawMessage {
	switch filter {
	case "":
		return sources
	case noSkills:
		return nil
	}
	var filtered []json.RawMessage
	for _, raw := range sources {
		var source pack.SkillSource
		if json.Unmarshal(raw, &source) != nil {
			continue
		}
		at := source.Path + source.Name
		if at != "" && (IsInside(at, filter) || IsInside(filter, at)) {
			filtered = append(filtered, raw)
		}
	}
	return filtered
}

// IsInside reports whether a path is equal to a folder or inside it.
func IsInside(path, folder string) bool {
	path = strings.TrimSuffix(path, "/")
	folder = strings.TrimSuffix(folder, "/")
	return path == folder || strings.HasPrefix(path, folder+"/")
}
