package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// maxFileBytes bounds the configuration file, and each file of entries that a setting names.
const maxFileBytes = 1 << 20

// Lookup reads one environment variable; os.LookupEnv outside tests.
type Lookup func(name string) (string, bool)

// Load builds the configuration. It applies in order: defaults, file, environment, and the flags that were given; the
// later one takes precedence. The flag --config or PAWL_CONFIG names the file. Load validates the result. Errors: an
// [*Error] with all faults of the settings. If the file cannot be read, the [*Error] has this fault and the faults of
// the environment and of the flags. The settings together are then not validated, because the values in the file are
// unknown.
func Load(flags *pflag.FlagSet, env Lookup) (Config, error) {
	c, d, isRead := Default(), &document{}, true
	var faults []Fault
	if path, by := fileName(flags, env); path != "" {
		read, err := readFile(path, &c)
		if isRead = err == nil; isRead {
			d, faults = read, read.list
		} else if f, ok := errors.AsType[*Error](err); ok {
			faults = f.Faults
		} else {
			faults = []Fault{{Field: by, Message: err.Error()}}
		}
	}
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	bind(settings, &c)
	// refused are the settings that got a value that was refused. Such a setting keeps its earlier value, and a fault
	// of that value would say nothing to the user.
	refused := make(map[string]bool)
	maps.Copy(refused, d.faulty)
	faults = append(faults, applyEnv(settings, env, refused)...)
	faults = append(faults, applyFlags(settings, flags, refused)...)
	c.origins = originsOf(d, settings, flags, env)
	if isRead {
		for _, f := range c.located(c.faults()) {
			// If the value of store was refused, then data only seems to be missing.
			if !refused[f.Field] && !(f.Field == "data" && refused["store"]) {
				faults = append(faults, f)
			}
		}
	}
	if len(faults) > 0 {
		return c, &Error{Faults: faults}
	}
	return c, nil
}

// fileName returns the path of the configuration file and the flag or variable that names it.
func fileName(flags *pflag.FlagSet, env Lookup) (path, by string) {
	if f := flags.Lookup("config"); f != nil && f.Changed {
		return f.Value.String(), "--config"
	}
	path, _ = env("PAWL_CONFIG")
	return path, "PAWL_CONFIG"
}

// readFile reads a configuration file into c. The document has the faults of its content.
func readFile(path string, c *Config) (*document, error) {
	raw, err := readBounded("config file", path)
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return &document{}, err
	}
	return parseDocument(path, raw, c)
}

// fileLimits bound the contents of the configuration file, and of each file that a setting names, after YAML aliases
// are expanded.
var fileLimits = source.Limits{Bytes: maxFileBytes, Depth: 32, Scalar: 64 << 10, Nodes: 10_000}

// readBounded reads a file of settings.
func readBounded(what, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s %s: %d bytes, at most %d", what, path, info.Size(), maxFileBytes)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return raw, nil
}

// readTable reads a file within the size limit, as readBounded does, for files that are read again while the sidecar
// runs. An empty file is an error: probably another program is still writing it, and it would remove the current
// settings.
func readTable(what, path string) ([]byte, error) {
	raw, err := readBounded(what, path)
	if err == nil && len(bytes.TrimSpace(raw)) == 0 {
		err = &Error{Faults: []Fault{{Field: path, Message: "is empty; a " + what + " that says nothing is {}"}}}
	}
	return raw, err
}

// EnvName returns the environment variable of a flag: "tls-cert" is PAWL_TLS_CERT.
func EnvName(flag string) string {
	return "PAWL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applyEnv sets the settings that environment variables contain; a list is separated by commas. It adds to the map
// refused the settings whose values are not valid.
func applyEnv(settings *pflag.FlagSet, env Lookup, refused map[string]bool) (faults []Fault) {
	settings.VisitAll(func(f *pflag.Flag) {
		text, ok := env(EnvName(f.Name))
		if !ok {
			return
		}
		if err := setFromEnv(f, text); err != nil {
			refused[settingOf(f.Name)] = true
			faults = append(faults, Fault{Field: EnvName(f.Name), Message: refusal(f.Value, text, err)})
		}
	})
	return faults
}

// setFromEnv sets a setting to the text of an environment variable. A list is separated by commas.
func setFromEnv(f *pflag.Flag, text string) error {
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		before := f.Value.String()
		if err := f.Value.Set(text); err != nil {
			// A Set that fails may have changed the setting to the zero value, which would be reported as a second
			// fault. So the old value is restored.
			_ = f.Value.Set(before)
			return err
		}
		return nil
	}
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return list.Replace(items)
}

// applyFlags copies the given flags into settings. It adds to the map refused the settings whose values are not valid.
func applyFlags(settings, flags *pflag.FlagSet, refused map[string]bool) (faults []Fault) {
	flags.Visit(func(f *pflag.Flag) {
		to := settings.Lookup(f.Name)
		if to == nil {
			return
		}
		from, fault := f.Value, ""
		if g, ok := from.(*given); ok {
			from, fault = g.Value, g.fault
		}
		if fault == "" {
			if err := copyFlag(to.Value, from); err != nil {
				fault = err.Error()
			}
		}
		if fault != "" {
			refused[settingOf(f.Name)] = true
			faults = append(faults, Fault{Field: "--" + f.Name, Message: fault})
		}
	})
	return faults
}

// copyFlag sets the value to to the value of a given flag.
func copyFlag(to, from pflag.Value) error {
	if url, ok := from.(*dsn.URL); ok {
		// The String method of a URL hides its password, so the value is copied with Secret.
		return to.Set(url.Secret())
	}
	list, ok := from.(pflag.SliceValue)
	if !ok {
		return to.Set(from.String())
	}
	target, ok := to.(pflag.SliceValue)
	if !ok {
		return errors.New("is a list")
	}
	return target.Replace(list.GetSlice())
}
