package a2a

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/gowebpki/jcs"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/secretfile"
)

// CardKey signs agent cards (A2A specification §8.4), with JWS over the RFC 8785 form of the card
// without its signatures.
type CardKey struct {
	signer jose.Signer
	// ID is the RFC 7638 thumbprint of the public key. It is the kid of the signatures.
	ID string
	// Public is the key as a JWK.
	Public jose.JSONWebKey
}

// ReadCardKey reads a PEM file with one private key, in PKCS #8 or as openssl writes EC and RSA keys. It accepts P-256,
// P-384 and P-521, RSA of 2048 bits and more, and Ed25519.
func ReadCardKey(path string) (*CardKey, error) {
	content, err := secretfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("card key: %w", err)
	}
	key, err := parseKey(content)
	if err != nil {
		return nil, fmt.Errorf("card key %s: %w", path, err)
	}
	return newCardKey(key)
}

// parseKey returns the first private key in a PEM text. Blocks of other types are skipped.
func parseKey(content []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return nil, errors.New("holds no PEM private key")
		}
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a %T cannot sign", key)
		}
		return signer, nil
	}
}

// newCardKey returns the key that signs agent cards. Its id is the thumbprint of the public key.
func newCardKey(key crypto.Signer) (*CardKey, error) {
	algorithm, err := algorithmOf(key)
	if err != nil {
		return nil, err
	}
	public := jose.JSONWebKey{Key: key.Public(), Algorithm: string(algorithm), Use: "sig"}
	digest, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, err
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(digest)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: public.KeyID}},
		(&jose.SignerOptions{}).WithType("JOSE"),
	)
	if err != nil {
		return nil, err
	}
	return &CardKey{signer: signer, ID: public.KeyID, Public: public}, nil
}

// algorithmOf returns the signature algorithm for a key, or an error that lists the supported kinds of keys.
func algorithmOf(key crypto.Signer) (jose.SignatureAlgorithm, error) {
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		switch k.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
	case *rsa.PrivateKey:
		if k.N.BitLen() >= 2048 {
			return jose.PS256, nil
		}
	case ed25519.PrivateKey:
		return jose.EdDSA, nil
	}
	return "", errors.New("want P-256, P-384, P-521, Ed25519 or RSA of at least 2048 bits")
}

// sign returns the signature of a card.
func (k *CardKey) sign(card *a2apb.AgentCard) (*a2apb.AgentCardSignature, error) {
	payload, err := signedForm(card)
	if err != nil {
		return nil, err
	}
	signed, err := k.signer.Sign(payload)
	if err != nil {
		return nil, err
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		return nil, err
	}
	parts := strings.Split(compact, ".")
	return &a2apb.AgentCardSignature{Protected: parts[0], Signature: parts[2]}, nil
}

// signedForm returns the bytes that are signed: the card as it is served, without signatures, in RFC 8785 canonical form.
func signedForm(card *a2apb.AgentCard) ([]byte, error) {
	served, err := marshal(card)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(served, &fields); err != nil {
		return nil, err
	}
	delete(fields, "signatures")
	plain, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(plain)
}

// etag returns the HTTP entity tag of a card's bytes.
func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`
}
