package server

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
)

// operated is a kind of file of the operator that the sidecar reads again while it runs.
type operated struct {
	// set names the file in the settings. read reads it, as a start and a reload do.
	set  func(c *config.Config, path string)
	read func(c config.Config) error
	// list returns the names of the entries in force.
	list func(ctx context.Context, client pawlv1.ControlServiceClient) ([]string, error)
	// validFile returns a file with the entry name.
	validFile func(name string) string
	// bad has faulty files, and what the error says of each besides the name of the file.
	bad map[string][]string
}

var operatedFiles = map[string]operated{
	"limits": {
		set:  func(c *config.Config, path string) { c.CallLimits = path },
		read: func(c config.Config) error { _, err := readLimits(c); return err },
		list: func(ctx context.Context, client pawlv1.ControlServiceClient) (names []string, err error) {
			got, err := client.ListLimits(ctx, &pawlv1.ListLimitsRequest{})
			for _, l := range got.GetLimits() {
				names = append(names, l.GetId())
			}
			return names, err
		},
		validFile: func(name string) string { return "limits:\n- {id: " + name + ", key: model, per_minute: 60}\n" },
		bad: map[string][]string{
			"limits:\n- {id: a, key: model, per_minute: 0}":                  {":2:23: ", "limits[0].per_minute", "want a whole number from 1 to 1000000000"},
			"limits:\n- {id: a, key: model, per_minut: 1}":                   {":2:23: ", "limits[0].per_minut", "allowed: concurrent, id, key, per_minute, provider, tokens_per_minute, weights"},
			"limits:\n- {id: a, key: model, per_minute: many}":               {":2:23: ", "limits[0].per_minute", `is "many", want a whole number`},
			"limits:\n- {id: a, key: 'model +', per_minute: 1}":              {":2:", "limits[0].key"},
			"limits:\n- {id: a, key: 'price', per_minute: 1}":                {":2:", "limits[0].key", "model, tool, labels, namespace, pack"},
			"limits:\n- {id: a, key: '1', per_minute: 1}":                    {":2:", "limits[0].key"},
			"limits:\n- {key: model, per_minute: 1}":                         {":2:", "limits[0].id", "is required"},
			"limits:\n- {id: a, key: model}":                                 {":2:", "limits[0]", "concurrent, per_minute, tokens_per_minute"},
			"limits:\n- {id: a, id: b, key: model, per_minute: 1}":           {":2:", "limits[0].id", "is given twice"},
			"limits:\n- {id: a, key: model, weights: {x: 0}, concurrent: 1}": {":2:", "limits[0].weights.x", "1 to 1000"},
		},
	},
	"budgets": {
		set:  func(c *config.Config, path string) { c.Budgets = path },
		read: func(c config.Config) error { _, err := readBudgets(c); return err },
		list: func(ctx context.Context, client pawlv1.ControlServiceClient) (names []string, err error) {
			got, err := client.ListBudgets(ctx, &pawlv1.ListBudgetsRequest{})
			for _, a := range got.GetAccounts() {
				names = append(names, strings.TrimSuffix(strings.TrimPrefix(a.GetName(), "tenant="), "/ever"))
			}
			return names, err
		},
		validFile: func(name string) string {
			return "accounts:\n- {label: tenant, value: " + name + ", window: ever, max_tokens: 5}\n"
		},
		bad: map[string][]string{
			"accounts:\n- {label: t, window: week, max_tokens: 1}":                      {":2:14: ", "accounts[0].window", `"week"`, "day, month, ever"},
			"accounts:\n- {window: day, max_tokens: 1}\n- {window: day, max_usd: 1}":    {":3:17: ", "accounts[1].max_usd", "allowed: label, max_cost_usd, max_tokens, time_zone, value, window"},
			"accounts:\n- {window: day, max_cost_usd: -1}":                              {":2:17: ", "accounts[0].max_cost_usd", "0 (no limit) to"},
			"accounts:\n- {window: day, max_tokens: 1.5}":                               {":2:17: ", "accounts[0].max_tokens", "is 1.5, want a whole number"},
			"accounts:\n- {window: day}":                                                {":2:", "accounts[0].max_cost_usd", "max_cost_usd, max_tokens or both"},
			"accounts:\n- {window: day, max_tokens: 1, time_zone: Mars/Olympus}":        {":2:32: ", "accounts[0].time_zone", "IANA"},
			"accounts:\n- {value: acme, window: day, max_tokens: 1}":                    {":2:4: ", "accounts[0].value", "there is no label"},
			"accounts:\n- {label: a=b, window: day, max_tokens: 1}":                     {":2:4: ", "accounts[0].label", `without "="`},
			"accounts:\n- {window: day, max_tokens: 1}\n- {window: day, max_tokens: 2}": {":3:", "accounts[1].value", "/day already"},
			"accounts: {}": {":1:1: ", "accounts", "is {}, want a list"},
			"account: []":  {":1:1: ", "account", "allowed: accounts"},
		},
	},
	"schedules": {
		set:  func(c *config.Config, path string) { c.Schedules = path },
		read: func(c config.Config) error { _, err := readSchedules(c, []string{"default"}); return err },
		list: func(ctx context.Context, client pawlv1.ControlServiceClient) (names []string, err error) {
			got, err := client.ListSchedules(ctx, &pawlv1.ListSchedulesRequest{})
			for _, s := range got.GetSchedules() {
				names = append(names, s.GetScheduleId())
			}
			return names, err
		},
		validFile: func(name string) string { return name + ": {cron: \"@yearly\", pack: p}\n" },
		bad: map[string][]string{
			"b: {cron: \"@daily\", pack: p}\na: {cron: \"0 0 30 2 *\", pack: p}": {":2:5: ", "a.cron", "never fires"},
			"a: {cron: \"@daily\", pack: p, catch_up: some}":                     {":1:30: ", "a.catch_up", "none, last, all"},
			"a: {cron: \"@daily\", pack: p, crom: x}":                            {":1:30: ", "a.crom", "allowed: agent, catch_up, catch_up_most, cron"},
			"a: {cron: \"@daily\", pack: p, late_sec: 0}":                        {":1:30: ", "a.late_sec", "want 1 to 86400"},
			"a: {cron: \"@daily\", pack: p, late_sec: soon}":                     {":1:30: ", "a.late_sec", `is "soon", want a whole number`},
			"a: {cron: \"@daily\"}":                                              {":1:", "a.pack", "is required"},
			"a: {cron: \"@daily\", pack: p, scopes: [\"runs:\"]}":                {":1:30: ", "a.scopes", "runs:write"},
			"a: {cron: \"@daily\", pack: p, namespace: blue}":                    {":1:30: ", "a.namespace", "none of default"},
			"a: {cron: 5, pack: p}":                                              {":1:5: ", "a.cron", "is 5, want a text"},
			"a: 3":                                                               {":1:1: ", "a", "want an object of agent"},
			"a: {cron: \"@daily\", pack: p}\na: {cron: \"@daily\", pack: p}":     {":2:1: ", "a", "is given twice"},
			"\"a b\": {cron: \"@daily\", pack: p}":                               {":1:1: ", "a b", "1 to 63 of A-Z"},
		},
	},
}

// TestBadOperatedFiles: nothing of a faulty file is used. The error names each fault with the file,
// the place, the entry, the field and what is allowed.
func TestBadOperatedFiles(t *testing.T) {
	t.Parallel()
	for name, kind := range operatedFiles {
		for text, wants := range kind.bad {
			c := settings(t)
			path := writeFile(t, name+".yaml", text)
			kind.set(&c, path)
			err := kind.read(c)
			if err == nil {
				t.Errorf("%s is taken: %s", name, text)
				continue
			}
			for _, want := range append(slices.Clone(wants), path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %s\n%v\nsays nothing of %q", name, text, err, want)
				}
			}
		}
		for what, text := range map[string]string{"nothing": "", "no YAML": "a: {b: ", "a list": "- a"} {
			c := settings(t)
			path := writeFile(t, name+".yaml", text)
			kind.set(&c, path)
			if err := kind.read(c); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s of %s: %v", name, what, err)
			}
		}
	}
}

// TestOperatedFilesAreReadAgain: at SIGHUP a sound file takes effect. A faulty file, an empty file
// and a missing file are refused as a whole, and the entries in force stay.
func TestOperatedFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	c, paths := settings(t), map[string]string{}
	for name, kind := range operatedFiles {
		paths[name] = writeFile(t, name+".yaml", kind.validFile("first"))
		kind.set(&c, paths[name])
	}
	s, log := serveLogged(t, c)
	client := pawlv1.NewControlServiceClient(dial(t, s.ready.GRPC))
	put := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(paths[name]+".new", []byte(text), 0o600), os.Rename(paths[name]+".new", paths[name])); err != nil {
			t.Fatal(err)
		}
	}
	hangUp := func(says string) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		log.await(t, says)
	}
	inForce := func(name, want string) {
		t.Helper()
		for {
			got, err := operatedFiles[name].list(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 1 && got[0] == want {
				return
			}
		}
	}
	for name, kind := range operatedFiles {
		inForce(name, "first")
		put(name, kind.validFile("second"))
		hangUp("files reloaded")
		inForce(name, "second")
		// Another file is sound and new. It does not take effect either.
		for other := range operatedFiles {
			if other != name {
				put(other, operatedFiles[other].validFile("beside"))
			}
		}
		for text, wants := range map[string]string{slices.Sorted(maps.Keys(kind.bad))[0]: paths[name] + ":", "\n": paths[name] + ": is empty"} {
			put(name, text)
			hangUp(wants)
			inForce(name, "second")
		}
		if err := os.Remove(paths[name]); err != nil {
			t.Fatal(err)
		}
		hangUp(filepath.Base(paths[name]) + ": no such file")
		for other, of := range operatedFiles {
			if other != name {
				got, err := of.list(t.Context(), client)
				if err != nil || slices.Contains(got, "beside") {
					t.Errorf("%s beside faulty %s: %v, %v", other, name, got, err)
				}
			}
		}
		inForce(name, "second")
		for other := range operatedFiles {
			put(other, operatedFiles[other].validFile("first"))
		}
		hangUp("files reloaded")
		inForce(name, "first")
	}
}
