package delivery

import (
	"errors"
	"net"
	"net/url"
)

// publicMessage returns the text of a delivery error for the owner of a subscription. The text may
// contain the host name in the owner's URL. It does not contain the IP address of this name, the DNS
// resolver, or addresses of this host. The log has the full error ([withoutURL]).
func publicMessage(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, errNotPublic) {
		return "the receiver's address " + errNotPublic.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "the receiver's name " + resolved(dns)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Timeout() {
			return op.Op + ": no answer in time"
		}
		if op.Err != nil {
			return op.Op + ": " + publicMessage(op.Err)
		}
		return op.Op + " failed"
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		if wrapped.Timeout() {
			return "no answer in time"
		}
		return publicMessage(wrapped.Err)
	}
	return err.Error()
}

// withoutURL removes the receiver's URL from an error before the error is logged, because the URL may
// contain a secret.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func resolved(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "is not known"
	case err.IsTimeout:
		return "was not resolved in time"
	}
	return "could not be resolved"
}
