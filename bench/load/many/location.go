package many

import (
	"net/url"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
)

// Location names the database that holds a store instead of a directory. The bench passes it to a
// child process over standard input, because URL contains the password.
type Location struct {
	URL    string `json:"url"`
	Schema string `json:"schema"`
}

// Engine opens the store's engine there.
func (p *Location) Engine() (engine.Engine, error) {
	opened, err := pgengine.Open(pgengine.Config{URL: dsn.Parse(p.URL), Schema: p.Schema})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// Flags are those of a sidecar that serves the place; a password goes by a file in dir.
func (p *Location) Flags(dir string) ([]string, error) {
	flags := []string{"--store", dsn.Parse(p.URL).String(), "--store-schema", p.Schema, "--accept-loss-on-failover"}
	password := passwordOf(p.URL)
	if password == "" {
		return flags, nil
	}
	file := filepath.Join(dir, "password")
	return append(flags, "--store-password-file", file), os.WriteFile(file, []byte(password), 0o600)
}

// passwordOf an address, "": it has none.
func passwordOf(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if password, there := parsed.User.Password(); there {
		return password
	}
	return parsed.Query().Get("password")
}
