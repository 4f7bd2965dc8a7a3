package config

// Budgets are the contents of [Config.Budgets]: accounts over runs. What they may hold
// knows whoever keeps them.
type Budgets struct {
	Accounts []Budget `yaml:"accounts"`
}

// Budget is one account.
type Budget struct {
	Label    string `yaml:"label"`
	Value    string `yaml:"value"`
	Window   string `yaml:"window"`
	TimeZone string `yaml:"time_zone"`
	// MaxCostUSD is in US dollars; 0 = no limit.
	MaxCostUSD float64 `yaml:"max_cost_usd"`
	MaxTokens  int64   `yaml:"max_tokens"`
}

// ReadBudgets reads the file. Its labels, windows and figures are not checked; an empty one
// is refused.
func ReadBudgets(path string) (Budgets, error) {
	var b Budgets
	raw, err := readTable("budgets file", path)
	if err == nil {
		err = decodeYAML(path, raw, &b)
	}
	return b, err
}
