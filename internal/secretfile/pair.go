package secretfile

import "crypto/tls"

// ReadKeyPair reads PEM files of a certificate and of its private key.
func ReadKeyPair(cert, key string) (tls.Certificate, error) {
	public, err := ReadTrusted(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := Read(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(public, private)
}
