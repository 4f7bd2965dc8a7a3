package config

// Budgets are the contents of the file [Config.Budgets]: accounts, which limit what many runs together may spend.
// Package budget checks the contents.
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

// ReadBudgets reads the file of [Config.Budgets], YAML or JSON. It does not check labels, windows and
// figures. place returns the position of a field, for example "accounts[2].window", for errors of later checks. An
// empty file is an error. Errors: an [*Error] with all faults of the content.
func ReadBudgets(path string) (b Budgets, place func(field string) string, err error) {
	d, err := readDocument("budgets file", path, &b)
	if err == nil {
		err = d.err()
	}
	if err != nil {
		return Budgets{}, nil, err
	}
	return b, d.where, nil
}
