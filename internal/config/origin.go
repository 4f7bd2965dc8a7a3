package config

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// originsOf returns where the values of the settings come from, by the names of the settings.
func originsOf(file *document, settings, flags *pflag.FlagSet, env Lookup) map[string]string {
	origins := make(map[string]string)
	for field, at := range file.positions {
		origins[field] = fmt.Sprintf("%s:%d:%d", file.path, at[0], at[1])
	}
	settings.VisitAll(func(f *pflag.Flag) {
		if _, ok := env(EnvName(f.Name)); ok {
			origins[settingOf(f.Name)] = EnvName(f.Name)
		}
		if to := flags.Lookup(f.Name); to != nil && to.Changed {
			origins[settingOf(f.Name)] = "--" + f.Name
		}
	})
	return origins
}

// settingOf returns the name of a flag's setting in the file.
func settingOf(flag string) string {
	if flag == "limits" {
		return "call_limits"
	}
	limit, ok := strings.CutPrefix(flag, "limits-")
	name := strings.ReplaceAll(limit, "-", "_")
	if ok {
		return "limits." + name
	}
	return name
}

// namedEntry matches an entry of a map in the name of a setting, for example "[eu]" in "agents[eu].card".
var namedEntry = regexp.MustCompile(`\[([^\]]*[^\]0-9][^\]]*)\]`)

// entries are the settings that are entries of a map of the file, by the name of the map.
var entries = map[string]string{"agents": "agent", "providers": "provider"}

// origin returns where the value of a setting comes from: "--tls-cert", "PAWL_TLS_CERT" or "FILE:LINE:COLUMN". For a
// part of a setting that has no origin of its own, it is the origin of the setting. It is "" for a default.
func (c *Config) origin(setting string) string {
	for of := namedEntry.ReplaceAllString(setting, ".$1"); of != ""; of = of[:max(0, strings.LastIndexAny(of, ".["))] {
		if from, ok := c.origins[of]; ok {
			return from
		}
		if from := c.origins[cmp.Or(entries[of], of)]; from != "" {
			return from
		}
	}
	return ""
}

// located returns the faults with the origins of their settings.
func (c *Config) located(faults []Fault) []Fault {
	for i := range faults {
		if faults[i].From == "" {
			faults[i].From = c.origin(faults[i].Field)
		}
	}
	return faults
}
