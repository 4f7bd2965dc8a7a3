package decisionlink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
)

// Link is the content of a token. It says who may decide about which call, and until when.
type Link struct {
	// Namespace, RunID and Step identify the held call.
	Namespace, RunID string
	Step             uint32
	// Digest is the SHA-256 of the exact call.
	Digest [sha256.Size]byte
	// For is the name of the person who decides.
	For string
	// By is the stored name of the principal that made the link. When the link is used, the right of
	// this principal to decide is checked again.
	By string
	// Expires is the time when the link expires, in Unix seconds. 0 means that there is no time limit.
	Expires int64
}

// Expired reports whether the link has expired.
func (l *Link) Expired(now time.Time) bool { return l.Expires != 0 && now.Unix() >= l.Expires }

// ErrForged is the error for a token that was not signed by any of the keys, or that has a wrong form.
var ErrForged = errors.New("the token is not authentic")

// version is the first byte of a token's body. A body that has another version is refused.
const version = 1

// purpose is part of the signed bytes, so that these signatures are not valid for anything else that the
// same key signs.
const purpose = "pawl decision link\x00"

// maxToken is the length of the longest token that is read, in characters. A token with the longest
// possible names is shorter.
const maxToken = 2048

// tokenText is base64url without padding. It is strict, so that there is only one text for a token.
var tokenText = base64.RawURLEncoding.Strict()

// Keys are keys for HMAC-SHA-256. The first key signs. All keys verify.
type Keys [][]byte

// Sign returns the token of a link. It is the base64url text of the link's fields and their
// HMAC-SHA-256.
func (k Keys) Sign(l *Link) string {
	body := l.body()
	return tokenText.EncodeToString(append(body, mac(k[0], body)...))
}

// Read verifies a token and returns its link. The only error is [ErrForged]. The caller must check
// [Link.Expired].
func (k Keys) Read(token string) (Link, error) {
	if len(token) > maxToken || strings.ContainsAny(token, "\r\n") { // base64 skips line ends
		return Link{}, ErrForged
	}
	raw, err := tokenText.DecodeString(token)
	if err != nil || len(raw) <= sha256.Size {
		return Link{}, ErrForged
	}
	body, sum := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	authentic := false
	for _, key := range k {
		authentic = hmac.Equal(sum, mac(key, body)) || authentic
	}
	if !authentic {
		return Link{}, ErrForged
	}
	l, ok := readBody(body)
	if !ok {
		return Link{}, ErrForged
	}
	return l, nil
}

func mac(key, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(purpose))
	h.Write(body)
	return h.Sum(nil)
}

// body returns the fields as bytes. Numbers have a fixed size, and the length of each text is written
// before the text, so that two different links never have the same bytes.
func (l *Link) body() []byte {
	b := make([]byte, 0, 128)
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(l.Expires))
	b = binary.BigEndian.AppendUint32(b, l.Step)
	b = append(b, l.Digest[:]...)
	for _, text := range []string{l.Namespace, l.RunID, l.For, l.By} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// readBody decodes the body of a link's token. ok is false if the bytes have another form.
func readBody(b []byte) (l Link, ok bool) {
	const fixed = 1 + 8 + 4 + sha256.Size
	if len(b) < fixed || b[0] != version {
		return l, false
	}
	expires := binary.BigEndian.Uint64(b[1:])
	if expires > math.MaxInt64 {
		return l, false
	}
	l.Expires, l.Step, l.Digest = int64(expires), binary.BigEndian.Uint32(b[9:]), [sha256.Size]byte(b[13:])
	b = b[fixed:]
	for _, text := range []*string{&l.Namespace, &l.RunID, &l.For, &l.By} {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(len(b)-width) {
			return l, false
		}
		*text, b = string(b[width:width+int(n)]), b[width+int(n):]
	}
	return l, len(b) == 0
}
