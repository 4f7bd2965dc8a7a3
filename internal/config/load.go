package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// maxFileBytes bounds a configuration file.
const maxFileBytes = 1 << 20

// Lookup reads one environment variable; os.LookupEnv outside tests.
type Lookup func(name string) (string, bool)

// Load builds the configuration: defaults, then the file, then the environment,
// then the flags that were given. The file is named by --config or PAWL_CONFIG.
// The result is validated; the error is a [*Error] for every fault that is not
// an unreadable file.
func Load(flags *pflag.FlagSet, env Lookup) (Config, error) {
	c := Default()
	if path := fileName(flags, env); path != "" {
		if err := readFile(path, &c); err != nil {
			return Config{}, err
		}
	}
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	bind(settings, &c)
	faults := applyEnv(settings, env)
	faults = append(faults, applyFlags(settings, flags)...)
	faults = append(faults, c.faults()...)
	if len(faults) > 0 {
		return c, &Error{Faults: faults}
	}
	return c, nil
}

func fileName(flags *pflag.FlagSet, env Lookup) string {
	if f := flags.Lookup("config"); f != nil && f.Changed {
		return f.Value.String()
	}
	path, _ := env("PAWL_CONFIG")
	return path
}

func readFile(path string, c *Config) error { return readYAML("config file", path, c) }

// fileLimits bound the contents of a file, aliases expanded.
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

// readTable is readBounded for a file that is read again while the sidecar runs. An empty file is an error:
// it is probably about to be written, and would remove the current settings.
func readTable(what, path string) ([]byte, error) {
	raw, err := readBounded(what, path)
	if err == nil && len(bytes.TrimSpace(raw)) == 0 {
		err = &Error{Faults: []Fault{{Field: path, Message: "is empty; a " + what + " that says nothing is {}"}}}
	}
	return raw, err
}

// readYAML reads a file of settings into the value that into points to.
func readYAML(what, path string, into any) error {
	raw, err := readBounded(what, path)
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return err
	}
	return decodeYAML(path, raw, into)
}

func decodeYAML(path string, raw []byte, into any) error {
	// The decoder expands aliases without a bound.
	if f := source.BoundYAML(raw, fileLimits); f != nil {
		return &Error{Faults: []Fault{{Field: path, Message: f.Error()}}}
	}
	if err := yaml.UnmarshalWithOptions(raw, into, yaml.DisallowUnknownField()); err != nil {
		return &Error{Faults: []Fault{{Field: path, Message: dsn.Scrub(strings.TrimSpace(yaml.FormatError(err, false, true)))}}}
	}
	return nil
}

// EnvName returns the environment variable of a flag: "tls-cert" is PAWL_TLS_CERT.
func EnvName(flag string) string {
	return "PAWL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applyEnv applies the environment; a list is separated by commas.
func applyEnv(settings *pflag.FlagSet, env Lookup) (faults []Fault) {
	settings.VisitAll(func(f *pflag.Flag) {
		text, ok := env(EnvName(f.Name))
		if !ok {
			return
		}
		if err := setFromEnv(f, text); err != nil {
			faults = append(faults, Fault{Field: EnvName(f.Name), Message: fmt.Sprintf("%q: %s", text, err)})
		}
	})
	return faults
}

func setFromEnv(f *pflag.Flag, text string) error {
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		before := f.Value.String()
		if err := f.Value.Set(text); err != nil {
			// A failed Set may have cleared the setting, which would be a second fault.
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

// applyFlags copies the given flags. They were parsed already, so a fault here is one of the setting itself.
func applyFlags(settings, given *pflag.FlagSet) (faults []Fault) {
	given.Visit(func(f *pflag.Flag) {
		to := settings.Lookup(f.Name)
		if to == nil {
			return
		}
		if err := copyFlag(to.Value, f.Value); err != nil {
			faults = append(faults, Fault{Field: "--" + f.Name, Message: err.Error()})
		}
	})
	return faults
}

func copyFlag(to, from pflag.Value) error {
	if url, ok := from.(*dsn.URL); ok {
		// The text of the URL does not contain the password that was given.
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
