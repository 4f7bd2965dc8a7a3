package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

const secretURL = "postgres://pawl:s3cret@db.example/runs?sslmode=verify-full"

func load(t *testing.T, file string, env map[string]string, args ...string) (config.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.Flags(flags)
	if file != "" {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		return config.Config{}, err
	}
	return config.Load(flags, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

// TestStoreInADatabase is taken from file, environment and flag, with its password; what is in
// effect is shown without, and what is shown is read again.
func TestStoreInADatabase(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func() (config.Config, error){
		"file":   func() (config.Config, error) { return load(t, "store: \""+secretURL+"\"\n", nil) },
		"bare":   func() (config.Config, error) { return load(t, "store: "+secretURL+"\n", nil) },
		"env":    func() (config.Config, error) { return load(t, "", map[string]string{"PAWL_STORE": secretURL}) },
		"flag":   func() (config.Config, error) { return load(t, "", nil, "--store", secretURL) },
		"strong": func() (config.Config, error) { return load(t, "store: postgres://x/y\n", nil, "--store", secretURL) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := read()
			if err != nil || c.Store.Secret() != secretURL || c.StoreSchema != "pawl" {
				t.Fatalf("%q in %q, %v", c.Store.Secret(), c.StoreSchema, err)
			}
			text, err := yaml.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if all := fmt.Sprintf("%s %s %v %+v %#v", text, shown, c, c, c); strings.Contains(all, "s3cret") {
				t.Errorf("its password is shown: %s", all)
			}
			again, err := load(t, string(text), nil)
			if err != nil || again.Store.String() != c.Store.String() {
				t.Errorf("read again: %s, %v", again.Store, err)
			}
		})
	}
}

// TestStoreFaults: each is named, and none has the password.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file string
		env  map[string]string
		args []string
		want string
	}{
		{args: nil, want: "data: is required: a directory for the store, or store:"},
		{args: []string{"--store", secretURL, "--data", "x"}, want: "store: and data are set"},
		{args: []string{"--data", secretURL}, want: "data: is the URL of a database: give it as store"},
		{args: []string{"--store", "postgres://pawl:s3cret@db example/x"}, want: "store: is no URL"},
		{args: []string{"--store", "postgres://pawl:s3cret@db"}, want: "store: names no database"},
		{env: map[string]string{"PAWL_STORE": "mysql://pawl:s3cret@db/runs"}, want: `store: begins with "mysql"`},
		{args: []string{"--store", secretURL, "--store-schema", "Pawl"}, want: `store_schema: "Pawl" is no name`},
		{args: []string{"--store", secretURL, "--store-schema", "pg_x"}, want: `store_schema: "pg_x" is no name`},
		{args: []string{"--store", secretURL, "--store-password-file", "f"}, want: "store_password_file: is set, and store has a password"},
		{args: []string{"--store", secretURL, "--encryption-key-file", "f"}, want: "encryption_key_file: is of a directory"},
		{args: []string{"--store", secretURL, "--data-key-age", "1h"}, want: "data_key_age: is of an encrypted directory"},
		{args: []string{"--data", "x", "--store-password-file", "f"}, want: "store_password_file: needs store"},
		{args: []string{"--data", "x", "--store-schema", "f"}, want: "store_schema: needs store"},
		{args: []string{"--data", "x", "--accept-loss-on-failover"}, want: "accept_loss_on_failover: needs store"},
		{args: []string{"--data", "x", "--require-sync"}, want: "require_sync: needs store"},
		{args: []string{"--data", "x", "--peer-listen", "127.0.0.1:0"}, want: "peer_listen: needs store"},
		{args: []string{"--data", "x", "--peer-address", "a:1"}, want: "peer_address: needs store"},
		{args: []string{"--store", secretURL, "--peer-address", "a:1"}, want: "peer_address: needs peer_listen"},
		{args: []string{"--store", secretURL, "--peer-listen", "a"}, want: `peer_listen: "a" is no HOST:PORT`},
		{args: []string{"--store", secretURL, "--peer-listen", "a:70000"}, want: `peer_listen: port "70000" is none of 0 to 65535`},
		{args: []string{"--store", secretURL, "--peer-listen", "0.0.0.0:7"}, want: "peer_address: is required where peer_listen is every address"},
		{args: []string{"--store", secretURL, "--peer-listen", ":7"}, want: "peer_address: is required where"},
		{args: []string{"--store", secretURL, "--peer-listen", ":7", "--peer-address", "[::]:7"}, want: "peer_address: is required where"},
		{args: []string{"--store", secretURL, "--peer-listen", ":7", "--peer-address", "a:0"}, want: `peer_address: port "0" is none of 1 to 65535`},
		{file: "store: " + secretURL + "\nstor: 1\n", want: "c.yaml:2:1: stor: is not known"},
		{file: "store: [" + secretURL + "]\n", want: "c.yaml:1:1: not valid YAML"},
		{file: "store: ['" + secretURL + "']\n", want: "c.yaml:1:1: store: is [\"postgres://pawl@db.example"},
		{file: "store: {a: '" + secretURL + "'}\n", want: "c.yaml:1:1: store: is {\"a\":\"postgres://pawl@db.example"},
	} {
		_, err := load(t, tt.file, tt.env, tt.args...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v %v %q: %v, want %q and no password", tt.args, tt.env, tt.file, err, tt.want)
		}
	}
}

// TestAnAddressIsNoDirectory: 'migrate --from' takes both.
func TestAnAddressIsNoDirectory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{secretURL: true, "postgresql://x/y": true, "./data": false, "postgres": false, "http://x": false} {
		if dsn.IsURL(text) != want {
			t.Errorf("%s is an address: %v", text, !want)
		}
	}
}
