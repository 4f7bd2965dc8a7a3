package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

func noEnv(string) (string, bool) { return "", false }

func env(vars map[string]string) Lookup {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func flagSet(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultOnlyLacksData(t *testing.T) {
	t.Parallel()
	c := Default()
	var e *Error
	if err := c.Validate(); !errors.As(err, &e) || len(e.Faults) != 1 || e.Faults[0].Field != "data" {
		t.Fatalf("faults of the default: %v", err)
	}
	c.Data = "x"
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	path := writeFile(t, `
data: from-file
listen: 127.0.0.1:1001
drain_timeout: 5s
allow_tool: [a, b]
limits:
  artifact_bytes: 32KiB
  labels: 7
  run_artifact_bytes: 70000
`)
	vars := map[string]string{
		"PAWL_CONFIG": path, "PAWL_LISTEN": "127.0.0.1:1002", "PAWL_ALLOW_TOOL": "c, d",
		"PAWL_LIMITS_LABELS": "8", "PAWL_LIMITS_MAX_TRANSITIONS": "50",
	}
	c, err := Load(flagSet(t, "--limits-labels=9", "--pack=p1", "--pack=p2", "--drain-timeout=7s"), env(vars))
	if err != nil {
		t.Fatal(err)
	}
	if c.Data != "from-file" || c.Listen != "127.0.0.1:1002" || c.Limits.Labels != 9 {
		t.Errorf("file < environment < flags: %+v", c)
	}
	if c.DrainTimeout != 7*time.Second || c.Limits.MaxTransitions != 50 {
		t.Errorf("drain %s, max_transitions %d", c.DrainTimeout, c.Limits.MaxTransitions)
	}
	if c.Limits.ArtifactBytes != 32<<10 || c.Limits.RunArtifactBytes != 70000 {
		t.Errorf("sizes of the file: %+v", c.Limits)
	}
	if !slices.Equal(c.AllowTools, []string{"c", "d"}) || !slices.Equal(c.Packs, []string{"p1", "p2"}) {
		t.Errorf("lists: %v %v", c.AllowTools, c.Packs)
	}
}

func TestFlagNamesTheFile(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "data: flagged\n")
	c, err := Load(flagSet(t, "--config", path), env(map[string]string{"PAWL_CONFIG": "/nowhere"}))
	if err != nil || c.Data != "flagged" {
		t.Fatalf("data %q, %v", c.Data, err)
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	c := Config{
		Listen: "nonsense", HTTP: "0.0.0.0:99999", HTTPOrigins: []string{"ftp"}, HTTPHosts: []string{"a b"},
		TLSKey: "k", TLSClientCA: "ca", Socket: strings.Repeat("s", 108), LogLevel: "loud", LogFormat: "xml",
		Packs: []string{""}, AllowTools: []string{" "},
		Limits: Limits{ArtifactBytes: 3, RunArtifactBytes: 2, RequestsPerSecond: -1},
	}
	var e *Error
	if !errors.As(c.Validate(), &e) {
		t.Fatal("no *Error")
	}
	got := map[string]bool{}
	for _, f := range e.Faults {
		got[f.Field] = true
		if f.Message == "" {
			t.Errorf("%s has no message", f.Field)
		}
	}
	want := []string{
		"data", "listen", "http", "http_origin[0]", "http_host[0]", "tls_cert", "tls_client_ca", "socket",
		"log_level", "log_format", "pack[0]", "allow_tool[0]", "drain_timeout",
		"lease", "step_grace", "restart_grace", "blob_grace", "limits.blob_bytes", "limits.workers", "limits.worker_turns",
		"limits.worker_steps", "limits.streams",
		"limits.pack_bytes", "limits.message_bytes", "limits.artifact_bytes", "limits.conversation_bytes",
		"limits.variables_bytes", "limits.cache_bytes", "limits.watch_bytes", "limits.labels", "limits.runs_in_flight", "limits.queued_inputs", "limits.inputs",
		"limits.run_queue", "limits.max_transitions", "limits.requests_per_second",
	}
	for _, field := range want {
		if !got[field] {
			t.Errorf("fault of %s is missing in:\n%v", field, e)
		}
	}
}

func TestSingleFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config)
		field  string
		says   string
	}{
		"open address":       {func(c *Config) { c.Listen = "0.0.0.0:1" }, "listen", "insecure_bind"},
		"host name":          {func(c *Config) { c.Listen = "example.com:1" }, "listen", "not loopback"},
		"every address":      {func(c *Config) { c.Listen = ":1" }, "listen", "not loopback"},
		"port":               {func(c *Config) { c.Listen = "127.0.0.1:70000" }, "listen", "0 to 65535"},
		"TLS alone":          {func(c *Config) { c.Listen, c.TLSCert, c.TLSKey = "0.0.0.0:1", "c", "k" }, "listen", "tls_client_ca"},
		"TLS alone, http":    {func(c *Config) { c.HTTP, c.TLSCert, c.TLSKey = "0.0.0.0:1", "c", "k" }, "http", "tokens_file"},
		"TLS alone, metrics": {func(c *Config) { c.Metrics, c.TLSCert, c.TLSKey = "0.0.0.0:1", "c", "k" }, "metrics", "insecure_bind"},
		"rights without CA":  {func(c *Config) { c.CertificatesFile = "f" }, "certificates_file", "tls_client_ca"},
		"same port":          {func(c *Config) { c.HTTP = c.Listen }, "http", "port of its own"},
		"hosts without http": {func(c *Config) { c.HTTPHosts = []string{"x"} }, "http", "is off"},
		"cert without key":   {func(c *Config) { c.TLSCert = "c" }, "tls_cert", "together"},
		"negative drain":     {func(c *Config) { c.DrainTimeout = -1 }, "drain_timeout", "above 0s"},
		"artifact > message": {func(c *Config) { c.Limits.MessageBytes = 64 << 10; c.Limits.ArtifactBytes = 65 << 10 }, "limits.artifact_bytes", "64KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Default()
			c.Data = "d"
			tc.change(&c)
			var e *Error
			if !errors.As(c.Validate(), &e) || len(e.Faults) != 1 {
				t.Fatalf("want one fault: %v", c.Validate())
			}
			if e.Faults[0].Field != tc.field || !strings.Contains(e.Faults[0].Message, tc.says) {
				t.Errorf("fault %+v, want %s with %q", e.Faults[0], tc.field, tc.says)
			}
		})
	}
}

func TestOpenAddressWhenSecured(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Config){
		func(c *Config) { c.TLSCert, c.TLSKey, c.TLSClientCA = "c", "k", "ca" },
		func(c *Config) { c.TokensFile = "t" },
		func(c *Config) { c.InsecureBind = true },
		func(c *Config) { c.Listen = "[::1]:0" },
		func(c *Config) { c.Listen = "localhost:0" },
	} {
		c := Default()
		c.Data, c.Listen = "d", "0.0.0.0:1"
		change(&c)
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestBadFilesAndVariables(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, says string }{
		"unknown key":  {"data: d\nlisten_on: x\n", "listen_on"},
		"wrong type":   {"data: d\nlimits:\n  labels: many\n", "labels"},
		"bad size":     {"data: d\nlimits:\n  pack_bytes: 1MB\n", "1MB"},
		"bad duration": {"data: d\ndrain_timeout: soon\n", "soon"},
		"truncated":    {"data: [", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(flagSet(t, "--config", writeFile(t, tc.file)), noEnv)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("error %v does not say %q", err, tc.says)
			}
		})
	}
	_, err := Load(flagSet(t), env(map[string]string{"PAWL_DRAIN_TIMEOUT": "x", "PAWL_LIMITS_LABELS": "y"}))
	var e *Error
	if !errors.As(err, &e) || len(e.Faults) != 3 || e.Faults[0].Field != "PAWL_DRAIN_TIMEOUT" {
		t.Errorf("bad variables and the missing data together: %v", err)
	}
}

func TestPrintedConfigReadsBack(t *testing.T) {
	t.Parallel()
	want := Default()
	want.Data, want.AllowTools = "d", []string{"*"}
	want.Limits.ArtifactBytes = 65537
	text, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(flagSet(t, "--config", writeFile(t, string(text))), noEnv)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	again, err := yaml.Marshal(got)
	if err != nil || string(again) != string(text) {
		t.Errorf("second print differs (%v):\n%s\n%s", err, text, again)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{"0": 0, "5": 5, "64KiB": 65536, "1 MiB": 1 << 20, "2GiB": 2 << 30} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1KB", "9999999999GiB", "1.5MiB"} {
		if _, err := ParseBytes(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if s := Bytes(65537).String() + " " + Bytes(3<<20).String() + " " + Bytes(0).String(); s != "65537 3MiB 0" {
		t.Error(s)
	}
}

func TestConfigAsJSON(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Data = "d"
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range []string{`"data":"d"`, `"drain_timeout":"20s"`, `"artifact_bytes":65536`} {
		if !strings.Contains(string(text), has) {
			t.Errorf("%s is missing in %s", has, text)
		}
	}
	if b := c.Limits.PackBytes; b.Type() != "size" {
		t.Errorf("the type of a size is %q", b.Type())
	}
}

// TestFaultsOfAllSources: one start finds the faults of flags, environment, file and settings, each with its place.
func TestFaultsOfAllSources(t *testing.T) {
	t.Parallel()
	path := writeFile(t, `listen: nonsense
lisen: x
drain_timeout: soon
a2a: 7
limits:
  labels: 0
  pack_bytes: 1MB
agents:
  eu: {card: x}
`)
	vars := env(map[string]string{"PAWL_LEASE": "5", "PAWL_LOG_LEVEL": "loud", "PAWL_LIMITS_STREAMS": "0"})
	_, err := Load(flagSet(t, "--config", path, "--wall-time", "1 day", "--a2a-push=maybe", "--limits-workers", "many", "--log-format", "xml"), vars)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	for _, want := range []string{
		path + `:2:1: lisen: is not known; 'pawl serve --print-config' shows the allowed keys; did you mean listen?`,
		path + `:3:1: drain_timeout: "soon" is no duration: want a number with a unit, as 300ms, 20s, 5m or 24h`,
		path + `:4:1: a2a: is 7, want true or false`,
		path + `:7:3: limits.pack_bytes: "1MB" is no size: want a number of bytes or one with KiB, MiB or GiB`,
		`PAWL_LEASE: "5" is no duration: want a number with a unit, as 300ms, 20s, 5m or 24h`,
		`--a2a-push: "maybe" is not true or false`,
		`--limits-workers: "many" is no whole number`,
		`--wall-time: "1 day" is no duration: want a number with a unit, as 300ms, 20s, 5m or 24h`,
		`data: is required: a directory for the store, or store: the URL of a PostgreSQL database`,
		path + `:1:1: listen: "nonsense" is no HOST:PORT`,
		path + `:9:8: agents[eu].card: "x" is no http(s) URL of a card`,
		`PAWL_LOG_LEVEL: log_level: "loud" is none of debug, info, warn, error`,
		`--log-format: log_format: "xml" is none of text, json`,
		path + `:6:3: limits.labels: 0 is none of 1 to 1024`,
		`PAWL_LIMITS_STREAMS: limits.streams: 0 is none of 1 to 1000000`,
	} {
		if !strings.Contains(err.Error()+"\n", "\n  "+want+"\n") {
			t.Errorf("the fault %q is missing in:\n%v", want, err)
		}
	}
	if len(e.Faults) != 15 {
		t.Errorf("%d faults, want 15:\n%v", len(e.Faults), err)
	}
}

// TestARefusedValueIsOneFault: the setting keeps another value, and nothing is said about that one.
func TestARefusedValueIsOneFault(t *testing.T) {
	t.Parallel()
	for want, given := range map[string]struct {
		args []string
		env  map[string]string
	}{
		"PAWL_STORE":    {env: map[string]string{"PAWL_STORE": "x"}},
		"--store":       {args: []string{"--store", "x"}},
		"--lease":       {args: []string{"--data", "d", "--lease", "bad", "--lease", "20s"}},
		"PAWL_A2A_PUSH": {args: []string{"--data", "d"}, env: map[string]string{"PAWL_A2A_PUSH": "maybe"}},
	} {
		_, err := Load(flagSet(t, given.args...), env(given.env))
		var e *Error
		if !errors.As(err, &e) || len(e.Faults) != 1 || !strings.HasPrefix(e.Faults[0].String(), want+": ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestUnreadableFile: what else it would say is unknown, but the faults of flags and environment are reported with it.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	_, err := Load(flagSet(t, "--config", "/does/not/exist", "--lease=x"), env(map[string]string{"PAWL_A2A": "x"}))
	var e *Error
	if !errors.As(err, &e) || len(e.Faults) != 3 || e.Faults[0].Field != "--config" || !strings.Contains(e.Faults[0].Message, "/does/not/exist") {
		t.Errorf("absent file: %v", err)
	}
}

// TestSettingsOfFlags: every flag has the name of a field of the file, which is how the origin of a value is found.
func TestSettingsOfFlags(t *testing.T) {
	t.Parallel()
	var file map[string]any
	text, err := yaml.Marshal(Default())
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	flagSet(t).VisitAll(func(f *pflag.Flag) {
		fields, name := file, settingOf(f.Name)
		if limit, ok := strings.CutPrefix(name, "limits."); ok {
			fields, _ = file["limits"].(map[string]any)
			name = limit
		}
		if _, ok := fields[name]; !ok && f.Name != "config" {
			t.Errorf("--%s has no field %s", f.Name, name)
		}
	})
}

// TestEdgesOfTheFile: an empty file says nothing, one over the bound is not read.
func TestEdgesOfTheFile(t *testing.T) {
	t.Parallel()
	c, err := Load(flagSet(t, "--data=d", "--config", writeFile(t, " \n")), noEnv)
	if err != nil || c.Listen != Default().Listen {
		t.Errorf("an empty file: %+v, %v", c, err)
	}
	big := writeFile(t, "data: d\n#"+strings.Repeat("x", maxFileBytes))
	if _, err := Load(flagSet(t, "--config", big), noEnv); err == nil || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("a file over the bound: %v", err)
	}
	if _, err := Load(flagSet(t, "--config", t.TempDir()), noEnv); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
}
