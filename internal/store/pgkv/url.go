package pgkv

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"
)

// URL says where a database is. Whatever prints it prints no password.
type URL struct{ raw string }

// ParseURL takes postgres://user:password@host:port/name?parameter=value. An error does not
// show what may be a password.
func ParseURL(raw string) (URL, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || u.Host == "" {
		return URL{}, errors.New("it is no URL of a database: want postgres://USER@HOST:PORT/NAME")
	}
	parsed := URL{raw}
	if _, err := pgxpool.ParseConfig(raw); err != nil {
		return URL{}, fmt.Errorf("%s is no URL of a database that can be used: one of its parameters is wrong, or a file that it names cannot be read", parsed)
	}
	return parsed, nil
}

// String is the URL without its password, and without parameters, any of which may have one.
func (u URL) String() string {
	parsed, err := url.Parse(u.raw)
	if err != nil || u.raw == "" {
		return "postgres://"
	}
	shown := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}
	if name := parsed.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// GoString is [URL.String].
func (u URL) GoString() string { return u.String() }

// MarshalText is [URL.String].
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
