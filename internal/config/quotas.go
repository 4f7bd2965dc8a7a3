package config

// Quotas are the contents of [Config.QuotasFile]: limits by the names of the resources. Package quota checks
// the names. 0 = no limit.
type Quotas struct {
	// Namespace and Principal are the default limits. They apply to each namespace and principal that
	// is not named below, and to limits that the entry of a named one does not set.
	Namespace map[string]int64 `yaml:"namespace"`
	Principal map[string]int64 `yaml:"principal"`
	// Namespaces and Principals are by name.
	Namespaces map[string]map[string]int64 `yaml:"namespaces"`
	Principals map[string]map[string]int64 `yaml:"principals"`
}

// ReadQuotas reads the file. Its names and figures are not checked; an empty file is refused.
func ReadQuotas(path string) (Quotas, error) {
	var q Quotas
	raw, err := readTable("quotas file", path)
	if err == nil {
		err = decodeYAML(path, raw, &q)
	}
	return q, err
}
