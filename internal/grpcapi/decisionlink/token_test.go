package decisionlink

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func sample() Link {
	return Link{
		Namespace: "red", RunID: "01JD0000000000000000000000", Step: 3, Digest: [32]byte{1, 2, 3},
		For: "alice@example.com", By: "ops", Expires: 1_800_000_000,
	}
}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// TestEveryLinkComesBack: what was signed is read back exactly, with any texts, and two links
// never share a token.
func TestEveryLinkComesBack(t *testing.T) {
	t.Parallel()
	keys := Keys{key(1)}
	link := rapid.Custom(func(t *rapid.T) Link {
		text := rapid.StringN(0, 40, 120)
		l := Link{
			Namespace: text.Draw(t, "namespace"), RunID: text.Draw(t, "run"), For: text.Draw(t, "for"), By: text.Draw(t, "by"),
			Step: rapid.Uint32().Draw(t, "step"), Expires: rapid.Int64Min(0).Draw(t, "expires"),
		}
		copy(l.Digest[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		one, other := link.Draw(t, "one"), link.Draw(t, "other")
		token := keys.Sign(&one)
		if got, err := keys.Read(token); err != nil || got != one {
			t.Fatalf("%+v became %+v, %v", one, got, err)
		}
		if one != other && token == keys.Sign(&other) {
			t.Fatalf("%+v and %+v share a token", one, other)
		}
	})
}

// TestTamperedTokens: no change of a token, of its fields, its text or its key, is accepted.
func TestTamperedTokens(t *testing.T) {
	t.Parallel()
	keys, l := Keys{key(1)}, sample()
	token := keys.Sign(&l)
	raw, err := tokenText.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			changed := bytes.Clone(raw)
			changed[i] ^= 1 << bit
			refused(t, keys, tokenText.EncodeToString(changed))
		}
	}
	for i := range token {
		refused(t, keys, token[:i])
	}
	resigned := func(change func(*Link)) string {
		other := l
		change(&other)
		return tokenText.EncodeToString(append(other.body(), raw[len(raw)-32:]...))
	}
	for _, text := range []string{
		resigned(func(l *Link) { l.Namespace = "blue" }),
		resigned(func(l *Link) { l.RunID = "01JD0000000000000000000001" }),
		resigned(func(l *Link) { l.Step++ }),
		resigned(func(l *Link) { l.Digest[0]++ }),
		resigned(func(l *Link) { l.For = "mallory@example.com" }),
		resigned(func(l *Link) { l.By = "admin" }),
		resigned(func(l *Link) { l.Expires = 0 }),
		Keys{key(2)}.Sign(&l),
		token + "=", token + "A", " " + token, token + "\n", strings.ToUpper(token), strings.Repeat("A", maxToken+1),
		tokenText.EncodeToString(append(raw[:len(raw)-32:len(raw)-32], mac(key(1), nil)...)),
		tokenText.EncodeToString(append([]byte{}, mac(key(1), nil)...)),
		tokenText.EncodeToString(append([]byte{version}, mac(key(1), []byte{version})...)),
		tokenText.EncodeToString(append([]byte{9}, mac(key(1), []byte{9})...)),
	} {
		refused(t, keys, text)
	}
}

func refused(t *testing.T, keys Keys, token string) {
	t.Helper()
	if got, err := keys.Read(token); !errors.Is(err, ErrForged) {
		t.Fatalf("%q is read as %+v, %v", token, got, err)
	}
}

// TestKeyRotation: the first key signs, every key of the list verifies, and a removed one does not.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	l := sample()
	old, both, fresh := Keys{key(1)}, Keys{key(2), key(1)}, Keys{key(2)}
	if _, err := both.Read(old.Sign(&l)); err != nil {
		t.Errorf("a link of the older key: %v", err)
	}
	if _, err := fresh.Read(both.Sign(&l)); err != nil {
		t.Errorf("a link of the first key: %v", err)
	}
	refused(t, fresh, old.Sign(&l))
}

// TestExpiry: a link ends with its second, and one without a time limit never does.
func TestExpiry(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 123)
	s := NewSigner("https://pawl.example.com/", 24*time.Hour, Keys{key(1)}, time.Now)
	url, expires := s.URL(sample(), from)
	token, ok := strings.CutPrefix(url, "https://pawl.example.com/decide/")
	l, err := s.Read(token)
	if !ok || err != nil || l.Expires != expires.Unix() || l.Expires != from.Add(24*time.Hour).Unix() {
		t.Fatalf("%s holds until %d (%v), %v", url, l.Expires, expires, err)
	}
	for _, tt := range []struct {
		at   time.Time
		want bool
	}{{from, false}, {expires.Add(-time.Nanosecond), false}, {expires, true}, {expires.AddDate(1, 0, 0), true}} {
		if got := l.Expired(tt.at); got != tt.want {
			t.Errorf("at %v expired is %v", tt.at, got)
		}
	}
	l.Expires = 0
	if l.Expired(time.Unix(1<<60, 0)) {
		t.Error("a link without a time limit expired")
	}
}
