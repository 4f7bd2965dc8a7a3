package check

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// subscriptions checks that subscriptions can be decoded, and that each dead letter belongs to a subscription
// or is being removed.
func (c *Checker) subscriptions() error {
	err := c.Each([]byte{layout.KindSubscription}, func(key, value []byte) error {
		_, _, err := layout.ReadSubscriptionKey(key)
		if err == nil {
			_, err = codec.DecodeSubscription(value)
		}
		if err != nil {
			return &Fault{Namespace: binary.BigEndian.Uint32(key[1:]), Row: "subscription", Detail: err.Error()}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.Each([]byte{layout.KindDeadLetter}, c.deadLetter)
}

// deadLetter checks that the subscription of a dead letter exists, or that its dead letters are being removed.
func (c *Checker) deadLetter(key, value []byte) error {
	of, rest, err := layout.ReadSubscriptionKey(key)
	if err == nil && len(rest) != 8 {
		err = fmt.Errorf("malformed key %x", key)
	}
	if err == nil {
		_, err = codec.DecodeDeadLetter(value)
	}
	if err != nil {
		return &Fault{Row: "dead letter", Detail: err.Error()}
	}
	owner, err := layout.Get(c.Txn, layout.SubscriptionKey(layout.KindSubscription, of))
	if err != nil || owner != nil {
		return err
	}
	if going, err := c.isBeingRemoved(layout.SubscriptionKey(layout.KindDeadLetter, of)); going || err != nil {
		return err
	}
	return &Fault{Namespace: of.Namespace, Run: of.Run, Row: "dead letter", Detail: fmt.Sprintf("there is no subscription %q", of.ID)}
}

// isBeingRemoved reports whether the rows whose keys begin with p are being removed.
func (c *Checker) isBeingRemoved(p []byte) (bool, error) {
	mark, err := layout.Get(c.Txn, layout.DropKey(p))
	return mark != nil, err
}
