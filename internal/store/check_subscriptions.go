package store

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/codec"
)

// subscriptions checks that subscriptions can be read, and that each dead letter
// belongs to one.
func (c *checker) subscriptions() error {
	err := c.each([]byte{kindSubscription}, func(key, value []byte) error {
		_, _, err := readSubscriptionKey(key)
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
	return c.each([]byte{kindDeadLetter}, c.letter)
}

func (c *checker) letter(key, value []byte) error {
	of, rest, err := readSubscriptionKey(key)
	if err == nil && len(rest) != 8 {
		err = fmt.Errorf("malformed key %x", key)
	}
	if err == nil {
		_, err = codec.DecodeDeadLetter(value)
	}
	if err != nil {
		return &Fault{Row: "dead letter", Detail: err.Error()}
	}
	owner, err := get(c.txn, subscriptionKey(kindSubscription, of))
	if err != nil || owner != nil {
		return err
	}
	if going, err := c.going(subscriptionKey(kindDeadLetter, of)); going || err != nil {
		return err
	}
	return &Fault{Namespace: of.Namespace, Run: of.Run, Row: "dead letter", Detail: fmt.Sprintf("there is no subscription %q", of.ID)}
}

// going: the rows under the prefix are being removed.
func (c *checker) going(p []byte) (bool, error) {
	mark, err := get(c.txn, dropKey(p))
	return mark != nil, err
}
