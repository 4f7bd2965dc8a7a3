package dsn

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// URL is the address of a database:
// postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST...]/DATABASE[?OPTION=VALUE...]. The zero value means
// that there is no address.
type URL struct {
	// secret returns the text of the URL, and a password that was not in the text. It is a function, so
	// that a printed URL shows no password.
	secret func() (text, password string)
}

// Parse returns the URL of a text. The text may be invalid, see [URL.Fault].
func Parse(text string) URL {
	if text = strings.TrimSpace(text); text == "" {
		return URL{}
	}
	return URL{secret: func() (string, string) { return text, "" }}
}

// IsZero reports whether the URL is the zero value.
func (u URL) IsZero() bool { return u.secret == nil }

// IsURL reports whether a text is meant to be the address of a database. Any other text is the name of a
// directory.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(strings.TrimSpace(text), "://")
	return ok && slices.Contains(schemes, strings.ToLower(scheme))
}

var schemes = []string{"postgres", "postgresql"}

// Modes are the valid values of sslmode. openModes are the values with which the connection may be
// unencrypted.
var (
	openModes = []string{"disable", "allow", "prefer"}
	Modes     = append(slices.Clone(openModes), "require", "verify-ca", "verify-full")
)

// Fault describes the error in the text of a URL. The description contains at most the scheme, the path or the
// sslmode of the text. It is "" if the text is valid, and for the zero value.
func (u URL) Fault() string {
	const want = "want postgres://USER@HOST[:PORT]/DATABASE[?sslmode=verify-full]"
	if u.secret == nil {
		return ""
	}
	p, err := url.Parse(u.text())
	switch {
	case err != nil:
		// The error of the parser contains the text, which may contain a password.
		return "is no URL: " + want + ", with what is special in a password written as %XX"
	case !slices.Contains(schemes, p.Scheme):
		return fmt.Sprintf("begins with %q: %s", p.Scheme, want)
	case p.Host == "" && p.Query().Get("host") == "":
		return "names no host: " + want
	case strings.Trim(p.Path, "/") == "":
		return "names no database: " + want
	case strings.Contains(strings.Trim(p.Path, "/"), "/"):
		return fmt.Sprintf("has the path %q, which is no name of a database: %s", p.Path, want)
	case p.Fragment != "":
		return "has a part behind '#': write it as %23"
	}
	if mode := p.Query().Get("sslmode"); mode != "" && !slices.Contains(Modes, mode) {
		return fmt.Sprintf("has the sslmode %q, which is none of %s", mode, strings.Join(Modes, ", "))
	}
	return ""
}

// Secret returns the text of the URL with its password. It may be used only to connect.
func (u URL) Secret() string {
	if u.secret == nil {
		return ""
	}
	text, password := u.secret()
	p, err := url.Parse(text)
	if password == "" || err != nil {
		return text
	}
	p.User = url.UserPassword(p.User.Username(), password)
	return p.String()
}

func (u URL) text() string {
	if u.secret == nil {
		return ""
	}
	text, _ := u.secret()
	return text
}

// WithPassword returns the same address with another password.
func (u URL) WithPassword(password string) URL {
	text := u.text()
	return URL{secret: func() (string, string) { return text, password }}
}

// User returns the name of the user in the address, or "" if it has none.
func (u URL) User() string {
	p, err := url.Parse(u.text())
	if err != nil {
		return ""
	}
	return p.User.Username()
}

// HasPassword reports whether the address contains a password.
func (u URL) HasPassword() bool {
	p, err := url.Parse(u.Secret())
	if err != nil {
		return false
	}
	_, there := p.User.Password()
	return there || p.Query().Get("password") != ""
}

// secrets are the options whose values String hides.
var secrets = []string{"password", "sslpassword", "passwd", "pwd"}

// String returns the address without its passwords.
func (u URL) String() string {
	if u.secret == nil {
		return ""
	}
	p, err := url.Parse(u.text())
	if err != nil || u.Fault() != "" {
		return "postgres://(unreadable)"
	}
	if p.User != nil {
		p.User = url.User(p.User.Username())
	}
	query := p.Query()
	for name := range query {
		if slices.Contains(secrets, strings.ToLower(name)) {
			query.Del(name)
		}
	}
	p.RawQuery = query.Encode()
	return p.String()
}

// Open returns the hosts on other machines to which the connection may be unencrypted. mode is the
// value of PGSSLMODE. It applies if the address has no sslmode.
func (u URL) Open(mode string) (hosts []string) {
	p, err := url.Parse(u.text())
	if err != nil {
		return nil
	}
	if own := p.Query().Get("sslmode"); own != "" {
		mode = own
	}
	if mode != "" && !slices.Contains(openModes, mode) {
		return nil
	}
	names := strings.Split(p.Host, ",")
	if p.Host == "" {
		names = strings.Split(p.Query().Get("host"), ",")
	}
	for _, name := range names {
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		if name = strings.Trim(name, "[]"); name != "" && !strings.HasPrefix(name, "/") && !loopback(name) {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// GoString returns the quoted result of [URL.String].
func (u URL) GoString() string { return fmt.Sprintf("%q", u.String()) }

// LogValue returns the result of [URL.String].
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalJSON writes [URL.String].
func (u URL) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }

// MarshalYAML writes [URL.String].
func (u URL) MarshalYAML() ([]byte, error) { return json.Marshal(u.String()) }

// MarshalText writes [URL.String].
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalYAML reads a scalar, which may be quoted.
func (u *URL) UnmarshalYAML(raw []byte) error {
	return u.Set(strings.Trim(strings.TrimSpace(string(raw)), `"'`))
}

// Set implements the flag's value. It accepts any text, because the error of the flag parser would
// contain the text. [URL.Fault] reports an invalid text later.
func (u *URL) Set(text string) error {
	*u = Parse(text)
	return nil
}

// Type returns the name of the value's type in the help of a flag.
func (*URL) Type() string { return "url" }
