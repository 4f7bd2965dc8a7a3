package config

// Quotas are the contents of [Config.QuotasFile]: limits by the names of the resources. Package quota checks
// the names. 0 = no limit.
type Quotas struct {
	// Namespace and Principal are the default limits. They apply to each namespace and principal
	// without an entry in Namespaces and Principals, and to limits that such an entry does not set.
	Namespace map[string]int64 `yaml:"namespace"`
	Principal map[string]int64 `yaml:"principal"`
	// Namespaces and Principals are by name.
	Namespaces map[string]map[string]int64 `yaml:"namespaces"`
	Principals map[string]map[string]int64 `yaml:"principals"`
}

// ReadQuotas reads the file of [Config.QuotasFile], YAML or JSON. It does not check names and figures. An empty file is
// an error. Errors: an [*Error] with all faults of the content.
func ReadQuotas(path string) (Quotas, error) {
	var q Quotas
	d, err := readDocument("quotas file", path, &q)
	if err == nil {
		err = d.err()
	}
	return q, err
}
