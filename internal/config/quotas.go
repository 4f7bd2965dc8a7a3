package config

// Quotas are the contents of [Config.QuotasFile]: how much of what, by the names of the
// resources, which whoever holds them to it knows. 0 = no bound.
type Quotas struct {
	// Namespace and Principal hold for each that is not named below, and for what is not
	// said of one that is.
	Namespace map[string]int64 `yaml:"namespace"`
	Principal map[string]int64 `yaml:"principal"`
	// Namespaces and Principals are by name.
	Namespaces map[string]map[string]int64 `yaml:"namespaces"`
	Principals map[string]map[string]int64 `yaml:"principals"`
}

// ReadQuotas reads the file. Its names and figures are not checked; an empty
// one is refused.
func ReadQuotas(path string) (Quotas, error) {
	var q Quotas
	raw, err := readTable("quotas file", path)
	if err == nil {
		err = decodeYAML(path, raw, &q)
	}
	return q, err
}
